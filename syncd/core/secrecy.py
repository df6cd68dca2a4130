"""Text of others made fit to show: without what looks like a credential, and without control characters.

A guess by shape, so the last defence and not the first: what is known to be secret is never put into a text.
"""

from __future__ import annotations

import re

CUT = "***"

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_NAME = r"(?:pass(?:word|wd|phrase)?|pwd|token|secret|(?:api|access|private|client|account)[-_ ]?key)"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"), rf"\1 {CUT}"),
    # The user's part may not hold a slash, the password may hold an @: it ends at the authority's last one.
    (re.compile(r"([a-z][a-z0-9+.-]*://[^\s/@:]*):[^\s/]*@"), rf"\1:{CUT}@"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), CUT),
    (re.compile(rf"(?i)(--[a-z0-9-]*{_NAME}[a-z0-9-]*[ =]+)[^\s'\"]+"), rf"\1{CUT}"),
    (re.compile(rf"(?i)(\b\w*{_NAME}\w*['\"]?\s*=\s*['\"]?)[^\s&,;'\"]+"), rf"\1{CUT}"),
    # After a colon comes prose as often ("token: expired"): a value is quoted, or holds a digit.
    (re.compile(rf"(?i)(\b\w*{_NAME}\w*['\"]?\s*:\s*)(['\"])[^'\"]+\2"), rf"\1\2{CUT}\2"),
    (re.compile(rf"(?i)(\b\w*{_NAME}\w*['\"]?\s*:\s*)(?=\S*\d)[^\s&,;'\"]{{6,}}"), rf"\1{CUT}"),
    (re.compile(r"\b(?:gh[a-z]_|glpat-|xox[a-z]-|AKIA|ASIA)[A-Za-z0-9_-]{12,}"), CUT),
)
_LONG = re.compile(r"[A-Za-z0-9+/=_~-]{32,}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


def without_credentials(text: str) -> str:
    """The text with `***` for what has the shape or the name of a credential. Names of objects stay, however
    long.
    """
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def without_keys(text: str) -> str:
    """The same, and without any long opaque word: for text of strangers, who say a key without its name.
    UUIDs and ordinary paths stay.
    """
    return _LONG.sub(lambda match: CUT if _opaque(match[0]) else match[0], without_credentials(text))


def _opaque(run: str) -> bool:
    """Whether a long run of characters is a key and not a word, a UUID or a path."""
    if _UUID.match(run) or not any(character.isdigit() for character in run):
        return False
    mixed = run != run.lower() and run != run.upper()
    return mixed or "/" not in run


def printable(text: str) -> str:
    """One line: no terminal escapes, every other control character and run of blanks a single blank."""
    plain = _ESCAPES.sub("", text)
    return " ".join("".join(each if each.isprintable() else " " for each in plain).split())
