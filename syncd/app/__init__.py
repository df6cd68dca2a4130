"""The composition root: configuration in, a running mirror out.

Plugs the adapters into the engine's ports, keeps the lease, answers requests, and says how everything is.
The only room that knows all others; it decides nothing about the protocol.
"""
