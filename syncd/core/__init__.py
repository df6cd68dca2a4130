"""The pure core: values in, values out.

Nothing here reads a clock, a socket, a file or a log; every function can be tested with plain values.
"""
