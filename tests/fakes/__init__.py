"""Stand-ins at the engine's ports, and the recordings of a real API server read as values."""
