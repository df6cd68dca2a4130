"""What must hold for any input: the pure core against models, and whatever bytes the outside sends."""
