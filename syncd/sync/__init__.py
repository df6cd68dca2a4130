"""The engine: asyncio and ports, no drivers. A reflector a stream, a supervisor a cluster."""
