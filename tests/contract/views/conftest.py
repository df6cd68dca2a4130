"""Databases for the tests of the views: with all of them."""

from __future__ import annotations

import pytest

from tests.conftest import Begin


@pytest.fixture
def begin() -> Begin:
    """The tests make what they change."""
    return Begin.VIEWS
