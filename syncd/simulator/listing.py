"""LIST: its parameters and their rules, continue tokens, and the choice of what a page holds. Pure.

The rules are those of list-watch.md §2 and §3.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from syncd.simulator import refusal
from syncd.simulator.kind import Kind
from syncd.simulator.record import Record, Scope
from syncd.simulator.selectors import FieldSelector, LabelSelector, SelectorError, parse_fields, parse_labels
from syncd.simulator.state import Collection, Snapshot, VersionExpired

_MATCHES = ("", "Exact", "NotOlderThan")


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The parameters of a list or a watch, read but not yet judged."""

    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""
    send_initial_events: bool | None = None
    allow_bookmarks: bool = False
    timeout: int | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> ListOptions:
        """Raises `Refusal` 400 for a number that is none."""
        initial = query.get("sendInitialEvents")
        return cls(
            limit=_integer(query.get("limit", "")) or 0,
            continue_token=query.get("continue", ""),
            resource_version=query.get("resourceVersion", ""),
            match=query.get("resourceVersionMatch", ""),
            send_initial_events=None if initial is None else truth(initial),
            allow_bookmarks=truth(query.get("allowWatchBookmarks", "false")),
            timeout=_integer(query.get("timeoutSeconds", "")),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a list."""

    version: int
    records: list[Record]
    token: str = ""
    remaining: int | None = None


def truth(text: str) -> bool:
    """A boolean parameter: anything but these is true."""
    return text.lower() not in ("false", "0")


def _integer(text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise refusal.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def scope(kind: Kind, namespace: str, query: Mapping[str, str]) -> Scope:
    """What the request selects.

    Raises:
        Refusal: 400 for a selector that cannot be read or names an unknown field.
    """
    known = {"metadata.name", "metadata.namespace", *kind.fields}
    if kind.custom and not kind.namespaced:
        known.discard("metadata.namespace")
    try:
        labels, fields = LabelSelector(), FieldSelector()
        if text := query.get("labelSelector"):
            labels = parse_labels(text)
        if text := query.get("fieldSelector"):
            fields = parse_fields(text, known.__contains__, labelled=kind.labelled_fields)
    except SelectorError as error:
        raise refusal.bad_request(str(error)) from error
    return Scope(namespace, labels, fields)


def page(kind: Kind, collection: Collection, within: Scope, options: ListOptions, current: int) -> Page:
    """One page.

    Args:
        current: the cluster's version.

    Raises:
        Refusal: 400, 410, 422 or 504.
    """
    _validate(options)
    prefix = f"{within.namespace}/" if within.namespace else ""
    version, start = current, ""
    if options.continue_token:
        token = decode_token(options.continue_token)
        start = prefix + token.start.removeprefix("/")
        version = current if token.rv < 0 else token.rv
    elif options.resource_version not in ("", "0"):
        wanted = _version(options.resource_version)
        if wanted > current:
            body = refusal.encoded(refusal.too_large(wanted, current))
            raise refusal.Refusal(504, body, headers={"Retry-After": "1"})
        if options.match == "Exact" or (not options.match and options.limit):
            version = wanted
    try:
        snapshot = collection.at(version)
    except VersionExpired:
        if options.continue_token:
            raise expired_token(options.continue_token) from None
        raise refusal.list_expired() from None
    # A list from the cache at any version ignores its limit.
    limit = 0 if options.resource_version == "0" and options.match != "Exact" else options.limit
    records, last, remaining = _choose(kind, snapshot, within, start, limit)
    if not last:
        return Page(version, records)
    token_text = encode_token(version, "/" + last.removeprefix(prefix) + "\0")
    return Page(version, records, token_text, None if within.selective else remaining)


def expired_token(text: str) -> refusal.Refusal:
    """410, with a token that goes on from the same key at another version."""
    start = decode_token(text).start.removeprefix("/")
    return refusal.continue_expired(encode_token(-1, start))


def _choose(
    kind: Kind, snapshot: Snapshot, within: Scope, start: str, limit: int
) -> tuple[list[Record], str, int]:
    """The records, the last key looked at where there is more ('' else), and how many keys follow it."""
    name = within.fields.exact("metadata.name")
    namespace = within.namespace or within.fields.exact("metadata.namespace")
    if name is not None and (namespace or not kind.namespaced):
        # One object by name is read by its key, so there never is another page.
        key = f"{namespace}/{name}" if kind.namespaced else name
        record = snapshot.records.get(key)
        return [record] if record and within.contains(record) else [], "", 0
    low, high = snapshot.range(within.namespace, start)
    records, keys = snapshot.records, snapshot.keys
    if not within.selective:
        end = min(high, low + limit) if limit > 0 else high
        chosen = [records[key] for key in keys[low:end]]
        return chosen, keys[end - 1] if end < high and end > low else "", high - end
    chosen = []
    for index in range(low, high):
        record = records[keys[index]]
        if within.contains(record):
            chosen.append(record)
            if limit and len(chosen) == limit and index + 1 < high:
                return chosen, keys[index], high - index - 1
    return chosen, "", 0


def encode_token(version: int, start: str) -> str:
    raw = msgspec.json.encode(_Token("meta.k8s.io/v1", version, start))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode_token(text: str) -> _Token:
    """Raises `Refusal` 400 for one that this server did not write."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad_token("illegal base64 data at input byte 0") from None
    try:
        token = msgspec.json.decode(raw, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError):
        first = raw[:1]
        shown = first.decode() if first.isascii() and first.isalnum() else f"\\x{first.hex()}"
        raise _bad_token(f"invalid character '{shown}' looking for beginning of value") from None
    if token.v != "meta.k8s.io/v1" or not token.start:
        raise _bad_token("server does not recognize this encoded version")
    return token


def _bad_token(why: str) -> refusal.Refusal:
    return refusal.bad_request(f"invalid continue token: continue key is not valid: {why}")


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise refusal.bad_request(f'resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def _validate(options: ListOptions) -> None:
    field = "resourceVersionMatch"
    if options.send_initial_events is not None:
        raise refusal.options_invalid("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if options.match:
        if options.continue_token:
            raise refusal.options_invalid(field, f"{field} is forbidden when continue is provided")
        if not options.resource_version:
            raise refusal.options_invalid(field, f"{field} is forbidden unless resourceVersion is provided")
        if options.match not in _MATCHES:
            raise refusal.options_invalid(field, f"unsupported value {options.match}")
        if options.match == "Exact" and options.resource_version == "0":
            raise refusal.options_invalid(field, f'{field} "exact" is forbidden for resourceVersion "0"')
    if options.continue_token and options.resource_version not in ("", "0"):
        raise refusal.bad_request("specifying resource version is not allowed when using continue")
