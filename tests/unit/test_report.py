"""What commands print of streams: names and errors as they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from syncd.app.reconciling import Run
from syncd.cli.report import print_run, print_status
from syncd.core.resource import State
from syncd.core.selection import NOT_ALL
from syncd.store.status import ClusterStatus, Status, StreamStatus

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def stream(**about: object) -> StreamStatus:
    values: dict[str, object] = dict.fromkeys(StreamStatus.__slots__, "")
    values |= {"stream_id": 1, "cluster": "prod", "resource": "secrets", "namespace": "shop", "epoch": 1}
    values |= {
        "state": State.LIVE,
        "object_count": 3,
        "lag_seconds": 0.0,
        "quarantined": 0,
        "verified_at": NOW,
    }
    values |= {"deadline_at": NOW, "resource_version": "7"}
    return StreamStatus(**{**values, **about})  # type: ignore[arg-type]


def cluster(error: str) -> ClusterStatus:
    return ClusterStatus("prod", "uid", "https://prod", "v1.36", {}, 1, NOW, error)


def status(**about: object) -> Status:
    return Status(**{**dict.fromkeys(Status.__slots__, ()), "database_now": NOW, "lease": None, **about})  # type: ignore[arg-type]


def test_what_is_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    one = stream(field_selector="metadata.name=only", last_error="[Errno 111] refused [/x] :warning:")
    print_status(status(streams=(one,)), timedelta(seconds=60))
    said = capsys.readouterr().out
    assert "prod: secrets in shop [metadata.name=only]" in said
    assert "[Errno 111] refused [/x] :warning:" in said


def test_why_a_run_failed_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("checked", "missing", "stale", "ghost", "altered", "repaired", "drift"), 0)
    print_run(Run(reports=[{"stream": "prod: pods [a=b]", "error": "[/x]", **counts}]), dry_run=False)
    said = capsys.readouterr().out
    assert "prod: pods [a=b]" in said
    assert "[/x]" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("no route to host", "prod: out of reach: no route to host"),
        (f"{NOT_ALL}the cluster serves nothing named x", "prod: not all that is configured is mirrored: the"),
    ],
)
def test_what_is_wrong_with_a_cluster(error: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_status(status(clusters=(cluster(error),)), timedelta(seconds=60))
    assert said in capsys.readouterr().out


def test_nothing_is_cut_and_a_stream_is_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    long = stream(
        label_selector="app.kubernetes.io/name=" + "x" * 300, last_error="refused\nby \x1b[31m everybody"
    )
    print_status(status(streams=(long, stream())), timedelta(seconds=60))
    _, _, first, second = capsys.readouterr().out.splitlines()
    assert "x" * 300 in first
    assert first.endswith("refused by  [31m everybody")
    assert second.startswith("prod: secrets in shop ")
    assert second == second.rstrip()


def test_one_is_not_plural(capsys: pytest.CaptureFixture[str]) -> None:
    print_run(Run(streams=1, done=1, checked=1), dry_run=False)
    assert capsys.readouterr().out.endswith("1 object checked in 1 stream: no drift\n")
