"""What `syncd check` asks of one cluster: is it there, who are we, may we, and how much is it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from syncd.app.client import client
from syncd.app.finding import Finding, Kind, error, ok, warning
from syncd.app.quantity import counted, day, size
from syncd.config import Cluster, Config
from syncd.core.access import Need, needs
from syncd.core.document import Transform
from syncd.core.errors import ConfigError, Forbidden, Invalid, LoginFailed, SyncdError, Unauthorized
from syncd.core.frames import parse_page
from syncd.core.ports import ListRequest
from syncd.core.selection import Chosen, ProblemKind, select
from syncd.kube.certificate import client_expiry, server_expiry
from syncd.kube.client import KubeClient
from syncd.kube.discovery import KubeDiscoverer
from syncd.kube.identity import cluster_identity, server_version
from syncd.kube.review import Question, review

AT_A_TIME = 8  # questions: a check is no reason to crowd a server
SAMPLE = 50  # objects of each stream, to tell their size by
ROUNDS = 5  # of /version, to tell the latency by
SLOW = 1.0  # seconds
EXPIRES_SOON = timedelta(days=14)
LARGEST = 3  # streams named with their size


@dataclass(frozen=True, slots=True)
class Expected:
    """Objects to come and the bytes of their JSON as stored; `exact` False: at least so many."""

    rows: int = 0
    bytes: int = 0
    exact: bool = True


class ClusterCheck:
    """One cluster's check.

    Attributes:
        findings: in order, once run.
        expected: of all streams, None where that was not learnt.
    """

    def __init__(self, config: Config, cluster: Cluster, now: datetime) -> None:
        self.findings: list[Finding] = []
        self.expected: Expected | None = None
        self._config = config
        self._cluster = cluster
        self._now = now
        self._gate = asyncio.Semaphore(AT_A_TIME)

    async def run(self) -> None:
        """Asks everything; what goes wrong is a finding."""
        server = ""
        try:
            opened = client(self._config, self._cluster)
            server = opened.connection.server
            self._expiry("the client certificate", client_expiry(opened.connection), "renew it and its key")
            async with opened:
                await self._reachable(opened)
                await self._answering(opened)
        except SyncdError as problem:
            self.findings.append(_refused(self._cluster.name, server, problem))

    async def _reachable(self, opened: KubeClient) -> None:
        name, version, times = self._cluster.name, "", list[float]()
        for _ in range(ROUNDS):
            began = time.monotonic()
            version = await server_version(opened)
            times.append(time.monotonic() - began)
        took = median(times)
        message = f"{opened.connection.server} answers in {took * 1000:.0f} ms, Kubernetes {version}"
        if took > SLOW:
            self.findings.append(
                warning(name, "reachable", message, "expect slow lists; move syncd nearer to it")
            )
        else:
            self.findings.append(ok(name, "reachable", message))
        self._expiry("the server's certificate", await server_expiry(opened.connection), "have it renewed")

    async def _answering(self, opened: KubeClient) -> None:
        name = self._cluster.name
        _, weak = await cluster_identity(opened)
        if weak:
            message = (
                "may not get the namespace kube-system: another cluster behind this address goes unnoticed"
            )
            self.findings.append(warning(name, "identity", message, self._grant))
        config = self._config
        discovery = await KubeDiscoverer(opened).discover()
        entries = config.selections(self._cluster)
        selected = select(name, entries, config.excluded(self._cluster), discovery)
        for problem in selected.problems:
            step = "see `syncd resources`"
            if problem.kind is ProblemKind.STALE:
                step = "see which of them is not available, and why: kubectl get apiservices"
            self.findings.append(warning(name, "selection", problem.message, step))
        if not selected.streams:
            step = "see `syncd resources --all` for what there is"
            self.findings.append(error(name, "selection", "nothing that it serves is selected", step))
            return
        lacking = await self._permissions(opened, needs(selected.streams))
        readable = [each for each in selected.streams if _key(each) not in lacking]
        await self._sizes(opened, readable)

    # --- may we -------------------------------------------------------------------------------------

    @property
    def _grant(self) -> str:
        only = f" --cluster {self._cluster.name}" if len(self._config.clusters) > 1 else ""
        return f"syncd rbac{only} | kubectl apply -f -"

    async def _permissions(self, opened: KubeClient, wanted: Sequence[Need]) -> set[tuple[str, str, str]]:
        """Says what may not be done; (group, resource, namespace) of what may not be listed."""
        questions = [
            (need, Question(verb, need.group, need.resource, need.namespace, need.name))
            for need in wanted
            if need.name != "kube-system"  # was asked for in earnest
            for verb in need.verbs
        ]
        answers = await asyncio.gather(*(self._ask(opened, *pair) for pair in questions))
        unlisted: set[tuple[str, str, str]] = set()
        refused = 0
        for (need, question), finding in zip(questions, answers, strict=True):
            if finding is None:
                continue
            refused += need.vital
            self.findings.append(finding if need.vital else _softened(finding, need))
            if question.verb == "list":
                unlisted.add((need.group, need.resource, need.namespace))
        if not refused:
            vital = [need for need in wanted if need.vital]
            resources = counted(len({(need.group, need.resource) for need in vital}), "resource")
            streams = counted(len(vital), "stream")
            message = f"may list and watch all that is selected: {resources} in {streams}"
            self.findings.append(ok(self._cluster.name, "permissions", message))
        return unlisted

    async def _ask(self, opened: KubeClient, need: Need, question: Question) -> Finding | None:
        name = self._cluster.name
        what = f"{question.verb} {_qualified(question)}{_where(need)}"
        try:
            async with self._gate:
                verdict = await review(opened, question)
        except SyncdError as problem:
            step = "let this account make SelfSubjectAccessReviews (system:basic-user)"
            return error(
                name, "permissions", f"cannot tell whether it may {what}: {problem}", step, Kind.UNCHECKED
            )
        if verdict.allowed:
            return None
        why = f" ({verdict.reason})" if verdict.reason else ""
        return error(name, "permissions", f"may not {what}{why}", self._grant)

    # --- how much -----------------------------------------------------------------------------------

    async def _sizes(self, opened: KubeClient, streams: Sequence[Chosen]) -> None:
        sampled = await asyncio.gather(*(self._sample(opened, each) for each in streams))
        known = [
            (each, expected) for each, expected in zip(streams, sampled, strict=True) if expected is not None
        ]
        self.expected = Expected(
            sum(expected.rows for _, expected in known),
            sum(expected.bytes for _, expected in known),
            all(expected.exact for _, expected in known),
        )
        largest = sorted(known, key=lambda pair: -pair[1].bytes)[:LARGEST]
        named = ", ".join(
            f"{_label(each)} {expected.rows:,} ({size(expected.bytes)})"
            for each, expected in largest
            if expected.rows
        )
        least = "" if self.expected.exact else "at least "
        total = f"{least}{counted(self.expected.rows, 'object')} of {size(self.expected.bytes)}"
        message = f"expect {total}" + (f"; the largest: {named}" if named else "")
        self.findings.append(ok(self._cluster.name, "size", message))

    async def _sample(self, opened: KubeClient, chosen: Chosen) -> Expected | None:
        """From one page; None, and a finding, where even that fails."""
        stream = chosen.stream
        transform = Transform(stream.resource, redact=chosen.entry.redact)
        try:
            async with self._gate:
                body = await opened.list(stream, ListRequest(min(SAMPLE, chosen.entry.page_size)))
            page = parse_page(body, versioned=chosen.poll is None)
            sizes = [len(transform(raw).document.encode()) for raw in page.items]
        except Invalid as problem:
            step = f"mend the selectors of {chosen.entry}"
            self.findings.append(error(self._cluster.name, "list", f"{_label(chosen)}: {problem}", step))
            return None
        except SyncdError as problem:
            step = "look at what serves it: an aggregated API's own server, perhaps"
            self.findings.append(error(self._cluster.name, "list", f"{_label(chosen)}: {problem}", step))
            return None
        rows = len(sizes) + (page.remaining or 0)
        average = sum(sizes) / len(sizes) if sizes else 0.0
        return Expected(
            rows, round(rows * average), page.continue_token is None or page.remaining is not None
        )

    def _expiry(self, what: str, expiry: datetime | None, step: str) -> None:
        if expiry is None:
            return
        name, left = self._cluster.name, expiry - self._now
        if left <= timedelta(0):
            self.findings.append(error(name, "certificate", f"{what} expired on {day(expiry)}", step))
        elif left < EXPIRES_SOON:
            message = f"{what} expires on {day(expiry)}, in {left.days} days"
            self.findings.append(warning(name, "certificate", message, step))
        else:
            self.findings.append(ok(name, "certificate", f"{what} is good until {day(expiry)}"))


def _refused(name: str, server: str, problem: SyncdError) -> Finding:
    """Why a cluster could not be asked at all."""
    if isinstance(problem, ConfigError):  # it says itself what to do
        return error(name, "configuration", str(problem), "", Kind.CONFIG)
    if isinstance(problem, Unauthorized):
        step = "log in anew, or mend the user in the kubeconfig"
        return error(name, "login", f"the log-in is refused: {problem}", step)
    if isinstance(problem, Forbidden):
        step = "grant it system:discovery, which every account has unless somebody took it away"
        return error(name, "login", f"this account may not ask what is served: {problem}", step)
    if "CERTIFICATE_VERIFY_FAILED" in str(problem):  # a sure answer, unlike none at all
        step = (
            "take certificate-authority from the cluster itself, or name the server as its certificate does"
        )
        return error(name, "certificate", f"the server's certificate is refused: {problem}", step)
    if isinstance(problem, LoginFailed):
        step = (
            "run the kubeconfig's log-in command by hand, as the user and with the environment that syncd has"
        )
        return error(name, "login", f"the log-in fails: {problem}", step, Kind.UNCHECKED)
    step = "see that this is the server, that it runs, and that it can be reached from here"
    return error(name, "reachable", f"{server}: {problem}", step, Kind.UNCHECKED)


def _softened(finding: Finding, need: Need) -> Finding:
    message = f"{finding.message}: without it, this is known later or less well: {need.purpose}"
    return warning(finding.subject, finding.check, message, finding.next_step)


def _key(chosen: Chosen) -> tuple[str, str, str]:
    stream = chosen.stream
    return stream.resource.group, stream.resource.name, stream.namespace


def _label(chosen: Chosen) -> str:
    stream = chosen.stream
    return stream.resource.qualified + (f" in {stream.namespace}" if stream.namespace else "")


def _qualified(question: Question) -> str:
    name = f"{question.resource}.{question.group}" if question.group else question.resource
    return f"{name} named {question.name}" if question.name else name


def _where(need: Need) -> str:
    if need.namespace:
        return f" in namespace {need.namespace}"
    return " in all namespaces" if need.namespaced else ""
