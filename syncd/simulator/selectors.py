"""Label and field selectors, as a kube-apiserver reads them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)\s*$")
_KEY = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$")


class SelectorError(ValueError):
    """The server answers 400 with this message."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term. `in` is true for a label that has one of the values, `notin` also where it is absent;
    without values `in` asks for existence and `notin` for absence.
    """

    key: str
    positive: bool
    values: frozenset[str] | None

    def matches(self, value: str | None) -> bool:
        if self.values is None:
            return (value is not None) == self.positive
        return (value in self.values) == self.positive


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold; none selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(term.matches(labels.get(term.key)) for term in self.requirements)


def parse_labels(text: str) -> LabelSelector:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k`.

    Raises:
        SelectorError: not a selector.
    """
    return LabelSelector(tuple(_requirement(term) for term in _terms(text)))


def _terms(text: str) -> list[str]:
    """Cut at commas outside parentheses."""
    return [term for term in re.split(r",(?![^()]*\))", text) if term.strip()]


def _requirement(term: str) -> Requirement:
    if found := _SET.match(term):
        key, operator, values = found.groups()
        return Requirement(_key(key, term), operator == "in", frozenset(v.strip() for v in values.split(",")))
    if found := _EQUAL.match(term):
        key, operator, value = found.groups()
        return Requirement(_key(key, term), operator != "!=", frozenset((value,)))
    name = term.strip()
    if name.startswith("!"):
        return Requirement(_key(name[1:].strip(), term), False, None)
    return Requirement(_key(name, term), True, None)


def _key(key: str, term: str) -> str:
    if not _KEY.match(key):
        raise SelectorError(f"unable to parse requirement: <nil>: Invalid value: {_quote(term.strip())}")
    return key


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold. A field that is absent is the empty string."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, value: Callable[[str], str]) -> bool:
        return all(term.matches(value(term.key)) for term in self.requirements)

    def exact(self, field: str) -> str | None:
        """The one value that the selector asks of a field, None where it leaves a choice."""
        for term in self.requirements:
            if term.key == field and term.positive and term.values is not None and len(term.values) == 1:
                return next(iter(term.values))
        return None


def parse_fields(text: str, known: Callable[[str], bool], *, labelled: bool = False) -> FieldSelector:
    """`metadata.name=a,status.phase!=Running`.

    Args:
        known: whether the resource can select by the field.
        labelled: refuse in the words of a kind with conversion functions (pods, events, custom ones).

    Raises:
        SelectorError: not a selector, or an unknown field.
    """
    requirements = []
    for term in re.split(r"(?<!\\),", text):
        if not term:
            continue
        found = re.match(r"(.*?)(!=|==|=)(.*)\Z", term, re.DOTALL)
        if not found:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = found.groups()
        if not known(field):
            raise SelectorError(
                f"field label not supported: {field}"
                if labelled
                else f"{_quote(field)} is not a known field selector: "
                'only "metadata.name", "metadata.namespace"'
            )
        value = re.sub(r"\\([,=\\])", r"\1", value)
        requirements.append(Requirement(field, operator != "!=", frozenset((value,))))
    return FieldSelector(tuple(requirements))


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
