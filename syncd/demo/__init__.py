"""The demo: a simulated cluster, a real daemon, a kill, an expired version, planted drift, and a proof.

The cluster lives in this process; the daemon and the reconcile are child processes, started as a user would
start them. What is shown is measured while it happens: from the daemon's HTTP side, from the simulator's log
of requests, and from the SQLite file with plain SQL.
"""
