"""What the contract of the stores needs of a machine that is busy with other tests."""

from __future__ import annotations

import pytest

from syncd.store import view_postgresql


@pytest.fixture(autouse=True)
def patient_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is for readers who hold a view; a disk that others use may keep a free one longer."""
    monkeypatch.setattr(view_postgresql, "LOCK_TIMEOUT", "4s")
