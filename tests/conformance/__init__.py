"""What syncd promises, one test a promise. Each test's name carries the number of its scenario, its docstring
begins with the promise in plain words, and `docs/guarantees.md` is made of both.

A scenario with the mark `cluster` needs nothing but a healthy cluster: `make test-cluster` runs the same test
against a real one. Any other carries the mark `simulated` with what it needs that such a cluster does not do.
"""
