"""Finds the configuration file, loads it, and words what is wrong with it.

All problems of a file are reported at once, in one ConfigError, each with its line, its key and the next
step. A value that came from the environment or another file is never repeated in a message.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from syncd.config.model import Config
from syncd.config.source import Loc, Source, expanded, parse, referenced
from syncd.config.value import database_url
from syncd.core.errors import ConfigError

MINIMAL = """\
database: {url: "sqlite:///syncd.db"}
clusters:
  - name: prod
resources:
  - pods
"""
"""The least that works: the current context of the kubeconfig, its pods, a file beside this one."""

Problems = list[tuple[Loc, str]]


def find(explicit: Path | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """The file to load: the one named, $SYNCD_CONFIG, else the first there is of the usual places.

    Raises:
        ConfigError: there is none; says how to begin.
    """
    named = explicit or (Path(environ["SYNCD_CONFIG"]) if environ.get("SYNCD_CONFIG") else None)
    if named is not None:
        path = expanded(str(named), cwd, environ)
        fault = _no_file(path)
        if not fault:
            return path
        origin = "" if explicit else " (named by $SYNCD_CONFIG)"
        raise ConfigError(f"{path}{origin}: {fault}. A configuration to begin with:\n\n{MINIMAL}")
    home = Path(environ.get("HOME") or "~").expanduser()
    places = [cwd / "syncd.yaml", home / ".config/syncd/syncd.yaml", Path("/etc/syncd/syncd.yaml")]
    for place in places:
        if not _no_file(place):
            return place
    looked = ", ".join(map(str, places))
    raise ConfigError(
        f"no configuration: none at {looked}. Name one with -c, or write ./syncd.yaml:\n\n{MINIMAL}"
    )


def _no_file(path: Path) -> str:
    """Why it is no file, '' where it is one."""
    try:
        return "" if stat.S_ISREG(path.stat().st_mode) else "is no file"
    except OSError as error:
        return (error.strerror or str(error)).lower()


def load(path: Path, environ: Mapping[str, str]) -> Config:
    """The configuration of a file.

    Args:
        environ: gives `${NAME}`, HOME for `~`, and SYNCD_DATABASE_URL, which wins over `database.url`
            (a relative file in it is under the working directory).

    Raises:
        ConfigError: the file cannot be read or used; lists every problem.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    return loads(text, path, environ)


def inputs(path: Path, environ: Mapping[str, str]) -> set[Path]:
    """The files that a configuration is made from: its own, and those whose text it refers to. Never raises:
    of a file that cannot be read, itself alone.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return {path}
    return {path, *referenced(text, path.absolute().parent, environ)}


def loads(text: str, path: Path, environ: Mapping[str, str]) -> Config:
    """As `load`, for a text that stands in for the file at `path`."""
    base = path.absolute().parent
    source = parse(text, base, environ)
    if source.problems and not isinstance(source.data, dict):
        raise ConfigError(_worded(path, source, source.problems))
    if source.data is None:
        raise ConfigError(f"{path}: is empty. A configuration to begin with:\n\n{MINIMAL}")
    if not isinstance(source.data, dict):
        raise ConfigError(f"{path}: must be a mapping of keys, like\n\n{MINIMAL}")
    # A section whose keys are all commented out is as good as absent.
    source.data = {
        key: value
        for key, value in source.data.items()
        if value is not None or key not in Config.model_fields
    }
    problems = list(source.problems)
    problems += _override(source, environ)
    config: Config | None = None
    try:
        config = Config.model_validate(source.data, context={"base": base, "environ": environ})
    except ValidationError as error:
        spoiled = {loc for loc, _ in problems}
        problems += [
            (loc, text)
            for loc, text in _found(error, source)
            if not any(loc == each or (each and _inside(loc, each)) for each in spoiled)
        ]
    if problems or config is None:
        raise ConfigError(_worded(path, source, problems))
    return config


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file, for editors."""
    schema = Config.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "syncd"}


def _override(source: Source, environ: Mapping[str, str]) -> Problems:
    url = environ.get("SYNCD_DATABASE_URL")
    database = source.data.setdefault("database", {})
    if not url or not isinstance(database, dict):
        return []
    try:
        database["url"] = database_url(url, Path.cwd(), environ)
    except ValueError as error:
        database.pop("url", None)
        return [((), f"the environment variable SYNCD_DATABASE_URL {error}")]
    return []


def _worded(path: Path, source: Source, problems: Problems) -> str:
    unique = dict.fromkeys(
        (source.line(loc) or 0, f"{_spelt(loc)} {text}" if loc else text) for loc, text in problems
    )
    lines = [(f"line {line}: " if line else "") + text for line, text in sorted(unique)]
    if len(lines) == 1:
        return f"{path}: {lines[0]}"
    return "\n  ".join([f"{path}: {len(lines)} problems", *lines])


def _spelt(loc: Loc) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _found(error: ValidationError, source: Source) -> Problems:
    errors = error.errors(include_url=False)
    locs = [each["loc"] for each in errors]
    # A list whose items are all wrong is called too short as well: that says nothing new.
    return [
        _explained(each, source)
        for each in errors
        if each["type"] != "too_short" or not any(_inside(loc, each["loc"]) for loc in locs)
    ]


def _inside(loc: Loc, outer: Loc) -> bool:
    return len(loc) > len(outer) and loc[: len(outer)] == outer


def _explained(error: ErrorDetails, source: Source) -> tuple[Loc, str]:
    """A problem in the words of the file, from one in the words of pydantic."""
    loc, kind, given = error["loc"], error["type"], error["input"]
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        return loc, _unknown_key(loc)
    if kind == "missing":
        return loc, "is missing"
    if kind == "value_error":
        return loc, str(context["error"])
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        wanted = (
            "a name or a mapping"
            if context.get("class_name") in ("ResourceEntry", "History")
            else "a mapping"
        )
        return loc, f"must be {wanted} of keys, not {_named(given)}"
    if kind in ("tuple_type", "list_type"):
        return loc, f"must be a list ([a, b] or lines that begin with -), not {_named(given)}"
    if kind in ("string_type", "path_type"):
        quotes = "; put it in quotes" if given is not None and not isinstance(given, dict | list) else ""
        return loc, f"must be text, not {_named(given)}{quotes}"
    if kind == "string_pattern_mismatch":
        return loc, f"{_repeated(given, loc, source)}does not match {context['pattern']}"
    if kind == "literal_error":
        return loc, f"{_repeated(given, loc, source)}must be one of {context['expected']}"
    if kind in ("greater_than_equal", "less_than_equal"):
        return (
            loc,
            f"must be at least {context['ge']}" if "ge" in context else f"must be at most {context['le']}",
        )
    if kind == "too_short":
        return loc, "must not be empty"
    message = error["msg"]
    return loc, _repeated(given, loc, source) + message[0].lower() + message[1:]


def _unknown_key(loc: Loc) -> str:
    keys = _keys_around(loc)
    nearest = get_close_matches(str(loc[-1]).lower(), keys, n=1, cutoff=0.5)
    if nearest:
        return f"is no key of syncd's; did you mean `{nearest[0]}`?"
    return f"is no key of syncd's; here it knows {', '.join(keys)}"


def _keys_around(loc: Sequence[str | int]) -> list[str]:
    """The keys that may stand where this one stands."""
    model: type[BaseModel] = Config
    for part in loc[:-1]:
        if isinstance(part, str):
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            found = _model_in(fields[part].annotation) if part in fields else None
            model = found or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _named(value: object) -> str:
    """The kind of a value in YAML's words: the safe loader reads `on`, `1.10` and dates as no text."""
    if value is None:
        return "nothing"
    kinds: dict[object, str] = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "text",
        dict: "a mapping",
        list: "a list",
    }
    return kinds.get(type(value), "a date")


def _repeated(value: object, loc: Loc, source: Source) -> str:
    # An entry that is a name alone is reported as its `name`, one level below the value in the file.
    if {loc, loc[:-1]} & source.secret or not isinstance(value, str | int | float):
        return ""
    text = ascii(value)
    return f"({text if len(text) <= 60 else text[:57] + '...'}) "
