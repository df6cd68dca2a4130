"""The database that a configuration names."""

from __future__ import annotations

from syncd.config import Config
from syncd.store.database import Database


def configured(config: Config) -> Database:
    """Not connected yet; whoever has it closes it. Raises ConfigError where the URL cannot be used."""
    return Database(config.database.url.get_secret_value(), config.database.schema_name)
