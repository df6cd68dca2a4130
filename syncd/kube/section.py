"""One mapping of a kubeconfig: typed access to its keys, and errors that say where it stands."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from syncd.core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping, the file that holds it (relative paths begin there) and what messages call it.

    Null counts as absent, as in Go. Every accessor raises ConfigError for a value of another type and never
    quotes the value.
    """

    file: Path
    what: str
    body: dict[str, object] = field(repr=False)

    def error(self, key: str, problem: str) -> ConfigError:
        """An error about one key: file, entry, key, problem."""
        place = f"{self.file}: {self.what}" if self.what else f"{self.file}"
        return ConfigError(f"{place}: {key} {problem}")

    @contextmanager
    def blame(self, what: str) -> Iterator[None]:
        """Names the file and the entries in an error that knows only the problem."""
        try:
            yield
        except ConfigError as exc:
            if str(exc).startswith(f"{self.file}"):
                raise
            raise ConfigError(f"{self.file}: {what}: {exc}") from None

    def text(self, key: str) -> str:
        """A string, '' where absent."""
        value = self.body.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(key, "must be text: put it in quotes")
        return value

    def flag(self, key: str) -> bool:
        """true or false, False where absent."""
        value = self.body.get(key)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(key, "must be true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.body.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
            raise self.error(key, "must be a list of texts")
        return tuple(value)

    def items(self, key: str) -> list[dict[str, object]]:
        """A list of mappings."""
        value = self.body.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
            raise self.error(key, "must be a list of mappings")
        return value

    def mapping(self, key: str) -> dict[str, object]:
        """A mapping, empty where absent."""
        value = self.body.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise self.error(key, "must be a mapping whose keys are texts")
        return value

    def path(self, key: str) -> Path | None:
        """A path; a relative one begins at the file's own directory."""
        value = self.text(key)
        return self.file.parent / value if value else None

    def material(self, key: str) -> bytes | Path | None:
        """PEM bytes from `<key>-data` (base64), else the path in `<key>`, else None: data wins."""
        encoded = self.text(f"{key}-data")
        if not encoded:
            return self.path(key)
        try:
            return base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            raise self.error(f"{key}-data", "is not base64") from None
