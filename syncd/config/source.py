"""From the text of a YAML file to plain data: the safe loader, `${…}` in values, the line of every key.

Problems are collected with the path of their key, so that a file's faults are reported together. Knows no
key by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Loc = tuple[str | int, ...]

_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NODES = 100_000  # aliases multiply: a few lines can stand for millions of nodes
_FILE_BYTES = 2**20


@dataclass(slots=True)
class Source:
    """What a file says.

    Attributes:
        data: mappings, lists and scalars, references replaced.
        lines: the line of each key and list item, from 1.
        problems: (path of the key, text), in order of appearance.
        secret: paths whose value came from outside the file: never shown in a message.
    """

    data: Any = None
    lines: dict[Loc, int] = field(default_factory=dict)
    problems: list[tuple[Loc, str]] = field(default_factory=list)
    secret: set[Loc] = field(default_factory=set)

    def line(self, loc: Loc) -> int | None:
        """The line of a key, or of the nearest one around it."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc)


class _Unusable(Exception):
    """The text cannot be read as one plain document."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.line = line
        super().__init__(message)


def parse(text: str, base: Path, environ: Mapping[str, str]) -> Source:
    """Reads one document. Never raises: what cannot be read at all is a problem with the empty path.

    Args:
        base: the directory against which `${file:…}` resolves.
    """
    source = Source()
    try:
        source.data = _construct(text, source)
    except _Unusable as error:
        if error.line is not None:
            source.lines[()] = error.line
        source.problems.append(((), str(error)))
        return source
    source.data = _replaced(source.data, (), source, base, environ)
    return source


def referenced(text: str, base: Path, environ: Mapping[str, str]) -> set[Path]:
    """The files that `${file:…}` names anywhere in a text, comments too, whether there or not."""
    names = (match[1] for match in _REFERENCE.finditer(text) if match[1] and match[2])
    prefix = "file:"
    return {expanded(name.removeprefix(prefix), base, environ) for name in names if name.startswith(prefix)}


def expanded(path: str, base: Path, environ: Mapping[str, str]) -> Path:
    """A path of the configuration: `~` is the home directory, a relative one is under `base`."""
    if path == "~" or path.startswith("~/"):
        home = environ.get("HOME") or os.path.expanduser("~")
        path = home + path[1:]
    return base / path


def _construct(text: str, source: Source) -> Any:
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _survey(node, source)
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Unusable(
            f"is not YAML: {error.problem or error.context}", mark.line + 1 if mark else None
        ) from error
    except yaml.YAMLError as error:
        raise _Unusable(f"is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise _Unusable("is nested too deeply") from error
    except (ValueError, OverflowError, TypeError, AttributeError, KeyError, IndexError) as error:
        # PyYAML lets Python's own errors through for scalars that only look like a number or a date.
        raise _Unusable(f"holds a value that YAML cannot read ({error}); put it in quotes") from error
    finally:
        if loader is not None:
            loader.dispose()


def _survey(root: yaml.Node, source: Source) -> None:
    """Notes the line of every key and refuses cycles, floods of aliases and doubled keys."""
    count = 0

    def visit(node: yaml.Node, loc: Loc, above: tuple[int, ...]) -> None:
        nonlocal count
        count += 1
        line = node.start_mark.line + 1
        if count > _NODES:
            raise _Unusable("has too many values (aliases multiply them)", line)
        if id(node) in above:
            raise _Unusable("has an alias that holds itself", line)
        above = (*above, id(node))
        if isinstance(node, yaml.SequenceNode):
            for index, child in enumerate(node.value):
                source.lines[(*loc, index)] = child.start_mark.line + 1
                visit(child, (*loc, index), above)
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, child in node.value:
                inner = (*loc, str(key.value)) if isinstance(key, yaml.ScalarNode) else loc
                source.lines[inner] = key.start_mark.line + 1
                if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                    if key.value in seen:
                        source.problems.append((inner, "is given twice; keep one"))
                    seen.add(key.value)
                visit(child, inner, above)

    visit(root, (), ())


def _replaced(value: Any, loc: Loc, source: Source, base: Path, environ: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _replaced(each, (*loc, key if isinstance(key, str) else str(key)), source, base, environ)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_replaced(each, (*loc, index), source, base, environ) for index, each in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value

    def resolved(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        try:
            if not match[2]:
                raise ValueError("has a ${ without its }; write $${ for a plain ${")
            text = _looked_up(match[1], base, environ)
        except ValueError as error:
            source.problems.append((loc, str(error)))
            return match[0]
        source.secret.add(loc)
        return text

    return _REFERENCE.sub(resolved, value)


def _looked_up(reference: str, base: Path, environ: Mapping[str, str]) -> str:
    if reference.startswith("file:"):
        path = expanded(reference.removeprefix("file:"), base, environ)
        try:
            with path.open("rb") as file:
                data = file.read(_FILE_BYTES + 1)
            if len(data) > _FILE_BYTES:
                raise ValueError(f"needs {path}, which is larger than 1 MiB")
            return data.decode().rstrip("\r\n")
        except OSError as error:
            raise ValueError(f"needs {path}, which cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"needs {path}, which is not UTF-8 text") from error
    if not _VARIABLE.match(reference):
        raise ValueError(f"has ${{{reference}}}, which names no variable; write $${{ for a plain ${{")
    if reference not in environ:
        raise ValueError(f"needs the environment variable {reference}, which is not set")
    return environ[reference]
