"""The commands: the only room that prints or exits.

Exit codes: 0 done and nothing found, 1 could not do it, 2 bad usage or configuration, 3 done, with findings.
"""
