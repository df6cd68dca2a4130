"""The key that asks for Steampipe's names."""

from __future__ import annotations

from pathlib import Path

import pytest

from syncd.config.file import loads
from syncd.core.errors import ConfigError

CLUSTERS = "clusters: [{name: prod}]\nresources: [pods]\n"


def test_it_is_off_unless_asked_for(tmp_path: Path) -> None:
    assert not loads(CLUSTERS, tmp_path / "syncd.yaml", {}).views.steampipe


def test_it_needs_postgresql(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`views.steampipe` needs PostgreSQL"):
        loads(f"{CLUSTERS}views: {{steampipe: true}}\n", tmp_path / "syncd.yaml", {})
    text = f"{CLUSTERS}views: {{steampipe: true}}\ndatabase: {{url: 'postgresql://db/mirror'}}\n"
    assert loads(text, tmp_path / "syncd.yaml", {}).views.steampipe
