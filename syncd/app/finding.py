"""One line of `syncd check`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"  # it works, less well or not for long
    ERROR = "error"  # something would fail


class Kind(StrEnum):
    """What an error means for the whole."""

    FAILS = "fails"  # known to fail
    UNCHECKED = "unchecked"  # no answer: nothing is known
    CONFIG = "config"  # a file that the configuration names cannot be used


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of a subject (`configuration`, `database`, or a cluster's name).

    Attributes:
        check: what was looked at, one word for machines.
        next_step: what to do, '' where nothing is to be done.
        kind: of an error; means nothing elsewhere.
    """

    severity: Severity
    subject: str
    check: str
    message: str
    next_step: str = ""
    kind: Kind = Kind.FAILS

    def as_json(self) -> dict[str, str]:
        """For machines."""
        return {
            "severity": self.severity.value,
            "subject": self.subject,
            "check": self.check,
            "message": self.message,
            "next_step": self.next_step,
        }


def ok(subject: str, check: str, message: str) -> Finding:
    """Nothing to do."""
    return Finding(Severity.OK, subject, check, message)


def warning(subject: str, check: str, message: str, next_step: str) -> Finding:
    """It works, but look at it."""
    return Finding(Severity.WARNING, subject, check, message, next_step)


def error(subject: str, check: str, message: str, next_step: str, kind: Kind = Kind.FAILS) -> Finding:
    """It would fail."""
    return Finding(Severity.ERROR, subject, check, message, next_step, kind)
