"""A Kubernetes API server in memory, as exact as the recordings, that misbehaves on command."""
