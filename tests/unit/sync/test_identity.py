"""Whether it is the same cluster: one question for all who wonder, and no old answer for a new question."""

from __future__ import annotations

import asyncio

import pytest

from syncd.core.errors import ConnectionLost, FenceLost
from syncd.core.ports import ClusterSeen, Registry
from syncd.sync.identity import Identity
from tests.fakes.bench import Lines
from tests.fakes.cluster import FakeCluster


class Cluster(FakeCluster):
    """Counts the questions, and answers none before it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def identity(self) -> tuple[str, bool]:
        self.asked += 1
        answer = await super().identity()
        await self.answering.wait()
        return answer


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def identity(bench: object, cluster: Cluster) -> Identity:
    registry: Registry = bench.store  # type: ignore[attr-defined]
    return Identity(cluster, registry, Lines(), ClusterSeen("prod", "", cluster.server, ""))


async def test_all_who_wonder_at_once_share_a_question(identity: Identity, cluster: Cluster) -> None:
    await asyncio.gather(*(identity.verify() for _ in range(20)))
    assert cluster.asked <= 2


async def test_an_answer_to_an_older_question_does_not_count(identity: Identity, cluster: Cluster) -> None:
    await identity.verify()
    cluster.answering.clear()
    early = asyncio.create_task(identity.verify())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    cluster.uid = "cluster-2"  # after the answer was made, before it arrives
    late = asyncio.create_task(identity.verify())
    await asyncio.sleep(0)
    cluster.answering.set()
    await early
    with pytest.raises(FenceLost):
        await late


async def test_who_waited_for_it_is_told_of_another_cluster_once(
    identity: Identity, cluster: Cluster
) -> None:
    await identity.verify()
    cluster.uid = "cluster-2"
    with pytest.raises(FenceLost):
        await identity.verify()
    await identity.verify()


async def test_one_that_is_cancelled_leaves_the_question_to_the_others(
    identity: Identity, cluster: Cluster
) -> None:
    cluster.answering.clear()
    first, second = (asyncio.create_task(identity.verify()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    cluster.answering.set()
    await second


async def test_an_error_is_told_and_the_next_asks_again(identity: Identity, cluster: Cluster) -> None:
    cluster.down = ConnectionLost("refused")
    with pytest.raises(ConnectionLost):
        await identity.verify()
    cluster.down = None
    await identity.verify()


async def test_a_question_that_nobody_waits_for_is_given_up(identity: Identity, cluster: Cluster) -> None:
    cluster.answering.clear()
    asking = asyncio.create_task(identity.verify())
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await identity.stop()  # the bench looks for tasks left behind


async def test_an_upgrade_counts_when_it_was_answered_twice(identity: Identity, cluster: Cluster) -> None:
    await identity.verify()
    for version, want in (("v2", "v1.36.2"), ("v1.36.2", "v1.36.2"), ("v2", "v1.36.2"), ("v2", "v2")):
        cluster.git_version = version
        await identity.follow_version()
        assert identity.version == want
