"""syncd for as long as one likes, under churn and faults: does anything grow? `python -m tests.soak`."""
