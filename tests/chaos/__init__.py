"""Random faults on three sides at once, from a seed: `python -m tests.chaos --seeds 20`."""
