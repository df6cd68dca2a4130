"""Picking findings of `syncd check` by what they are about."""

from __future__ import annotations

from collections.abc import Sequence

from syncd.app.finding import Finding


def about(findings: Sequence[Finding], check: str, subject: str = "") -> list[Finding]:
    """The findings of one check."""
    return [each for each in findings if each.check == check and subject in ("", each.subject)]


def one(findings: Sequence[Finding], check: str, subject: str = "") -> Finding:
    (found,) = about(findings, check, subject)
    return found
