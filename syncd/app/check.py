"""`syncd check`: everything that can be found out before the first run, without writing anything."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

from syncd.app.cluster_check import ClusterCheck, Expected
from syncd.app.database_check import check_database, check_room
from syncd.app.finding import Finding, Kind, Severity, ok
from syncd.config import Config


class Verdict(StrEnum):
    """What all findings come to."""

    FINE = "fine"
    FAILS = "fails"  # something is known to fail
    UNCHECKED = "unchecked"  # nothing is known to fail, and something could not be asked
    CONFIG = "config"  # the configuration, or a file that it names, cannot be used


async def check_all(config: Config, now: datetime | None = None) -> tuple[list[Finding], Verdict]:
    """Checks the configuration, the database and every cluster, side by side.

    Args:
        now: aware; for the certificates.
    """
    moment = now or datetime.now(UTC)
    checks = [ClusterCheck(config, cluster, moment) for cluster in config.clusters]
    async with asyncio.TaskGroup() as tasks:
        looking = tasks.create_task(check_database(config))
        for check in checks:
            tasks.create_task(check.run())
    database, inspection = looking.result()
    findings = [_configuration(config), *database]
    for check in checks:
        findings += check.findings
    expected = [check.expected for check in checks]
    if inspection is not None and any(expected):
        unknown = Expected(exact=False)
        findings.append(check_room(inspection, [each or unknown for each in expected]))
    return findings, verdict(findings)


def verdict(findings: Sequence[Finding]) -> Verdict:
    """The configuration's faults first: they spoil every other answer."""
    kinds = {finding.kind for finding in findings if finding.severity is Severity.ERROR}
    if Kind.CONFIG in kinds:
        return Verdict.CONFIG
    if Kind.FAILS in kinds:
        return Verdict.FAILS
    return Verdict.UNCHECKED if kinds else Verdict.FINE


def _configuration(config: Config) -> Finding:
    count = sum(len(config.selections(cluster)) for cluster in config.clusters)
    names = ", ".join(cluster.name for cluster in config.clusters)
    return ok("configuration", "configuration", f"clusters: {names}; entries of resources: {count}")
