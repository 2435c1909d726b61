"""After a graduation the cluster grows by Kafka's own means, and our client and commands work against it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.config.properties import parse_properties
from oncelog.client import Admin
from oncelog.protocol.topics import INTERNAL_TOPICS
from tests.support.kafka.server import Kafka, format_storage, free_ports, java_with_kafka
from tests.support.logs.graduation import (
    GROUPS,
    LEFT,
    ORDERS,
    OVERRIDES,
    commit,
    committed_values,
    done,
    jobs_left,
    make_past,
    observe,
    offsets_of,
    until_groups_are_loaded,
    wish_for,
)
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPICS = ("orders", "jobs", *sorted(INTERNAL_TOPICS))


def broker_beside(first: Path, node_id: int, directory: Path) -> Kafka:
    """One more broker, which is no controller: the settings of the first but for its name and address."""
    (port,) = free_ports(1)
    settings = parse_properties(first.read_text())
    settings |= {
        "process.roles": "broker",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(directory / "data"),
    }
    directory.mkdir()
    file = directory / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    cluster_id = parse_properties((first.parent / "meta.properties").read_text())["cluster.id"]
    format_storage(java_with_kafka(), file, static_quorum=True, cluster_id=cluster_id)
    return Kafka(directory, formatted=(file, port))


@pytest.fixture
def three(tmp_path: Path) -> Iterator[dict[int, Kafka]]:
    """A broker that graduated, and two more."""
    java_with_kafka()
    daemon = Daemon(tmp_path / "data", *OVERRIDES)
    try:
        asyncio.run(make_past(daemon.bootstrap))
    finally:
        daemon.stop()
    (controller_port,) = free_ports(1)
    settings = done(wish_for(tmp_path / "data", None, daemon.bootstrap, controller_port))
    with ExitStack() as running:
        brokers = {1: Kafka(tmp_path, formatted=(settings, int(daemon.bootstrap.rpartition(":")[2])))}
        running.callback(brokers[1].stop)
        for node_id in (2, 3):
            brokers[node_id] = broker_beside(settings, node_id, tmp_path / f"broker-{node_id}")
            running.callback(brokers[node_id].stop)
        yield brokers


def tool(name: str, *arguments: str | Path) -> None:
    command = [*java_with_kafka(), f"org.apache.kafka.tools.{name}", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S)


async def reassign(bootstrap: str, replicas: list[int], directory: Path) -> None:
    """Move every partition by kafka-reassign-partitions.sh; wait until these replicas are in sync and the first one
    leads.
    """
    async with Admin(bootstrap) as admin:
        places = [
            {"topic": topic.name, "partition": partition.partition, "replicas": replicas}
            for topic in await admin.describe_topics(*TOPICS)
            for partition in topic.partitions
        ]
        file = directory / f"to-{'-'.join(map(str, replicas))}.json"
        file.write_text(json.dumps({"version": 1, "partitions": places}))
        where = ["--bootstrap-server", bootstrap]
        tool("reassign.ReassignPartitionsCommand", *where, "--reassignment-json-file", file, "--execute")
        await until_in_sync(admin, replicas)
        tool("LeaderElectionCommand", *where, "--election-type", "preferred", "--all-topic-partitions")


async def until_in_sync(admin: Admin, replicas: list[int]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            topics = await admin.describe_topics(*TOPICS)
            partitions = [partition for topic in topics for partition in topic.partitions]
            if all(
                list(each.replicas) == replicas and set(each.in_sync_replicas) == set(replicas) for each in partitions
            ):
                return


def oncelog(bootstrap: str, *arguments: str) -> Any:
    command = [sys.executable, "-m", "oncelog", *arguments, "--bootstrap", bootstrap, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def test_three_brokers_take_over_and_the_first_may_die(three: dict[int, Kafka], tmp_path: Path) -> None:
    async def go_on() -> None:
        bootstrap = three[1].bootstrap
        await until_groups_are_loaded(bootstrap, len(GROUPS))
        before = await observe(bootstrap)
        await reassign(bootstrap, [2, 3, 1], tmp_path)
        await commit(bootstrap, b"by three")
        assert await committed_values(bootstrap) == [*(value for *_, value in before.committed[ORDERS]), b"by three"]
        # The first is the only controller: without it no replica could be declared out of sync.
        await reassign(bootstrap, [2, 3], tmp_path)
        await commit(three[2].bootstrap, b"by two")
        listed = await asyncio.to_thread(oncelog, three[2].bootstrap, "txn", "list")
        assert {each["coordinator"] for each in listed if each["transactional_id"] == "payer"} in ({2}, {3})
        three[1].stop()
        await commit(three[3].bootstrap, b"without the first")
        assert (await committed_values(three[2].bootstrap))[-3:] == [b"by three", b"by two", b"without the first"]
        async with Admin(three[2].bootstrap) as admin:
            assert await offsets_of(admin, before.groups) == before.offsets
        assert await jobs_left(three[2].bootstrap) == dict.fromkeys(LEFT, 2)

    asyncio.run(go_on())
    described = oncelog(three[2].bootstrap, "txn", "describe", "payer")
    assert described["state"] == "CompleteCommit" and described["coordinator"] in (2, 3)
