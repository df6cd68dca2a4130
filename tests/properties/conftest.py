"""How long Hypothesis looks. The machine is shared, so nothing here is judged by the clock."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "properties",
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("ci", settings.get_profile("properties"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "properties")
