"""`oncelog graduate`, with Apache Kafka started on what it leaves: its clients notice nothing.

One start of Kafka for a directory that was stopped, and given to Kafka elsewhere; one for a directory that was killed,
and became Kafka's in place.
"""

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelog import sync
from oncelog.broker.cluster.metadata_snapshot import decode_snapshot
from oncelog.client import Admin, Consumer, Producer
from oncelog.client.admin.descriptions import TransactionDescription
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from tests.clients.wire import WireBroker
from tests.support.kafka.server import Kafka, free_ports, java_with_kafka
from tests.support.logs.graduation import (
    GROUPS,
    JOBS,
    LEFT,
    OVERRIDES,
    PREPARED,
    Seen,
    commit,
    committed_values,
    done,
    jobs_left,
    leave_open,
    make_past,
    observe,
    prepare,
    read,
    until_groups_are_loaded,
    wish_for,
)
from tests.support.patience import PATIENCE_S, run
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.kafka


@dataclass(frozen=True, slots=True)
class Moved:
    """A broker that has become Apache Kafka on the same address, with what was seen and held before."""

    kafka: Kafka
    kafka_dir: Path
    data_dir: Path
    before: Seen
    after: Seen
    described: TransactionDescription
    """The prepared transaction, as it was."""
    prepared: sync.Transaction
    """Held by its producer."""
    held: sync.Producer
    """An idempotent producer that has sent to `large` and lived through it all."""
    held_offset: int
    source_digests: dict[str, str]


def digests(directory: Path) -> dict[str, str]:
    files = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


async def describe(bootstrap: str, transactional_id: str) -> TransactionDescription:
    async with Admin(bootstrap) as admin:
        return await admin.describe_transaction(transactional_id)


async def until_ended(bootstrap: str, transactional_id: str, state: str) -> None:
    async with Admin(bootstrap) as admin:
        while (await admin.describe_transaction(transactional_id)).state != state:
            pass  # ask again


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moved]:
    java_with_kafka()
    directory = tmp_path_factory.mktemp("moved")
    data_dir, kafka_dir = directory / "data", directory / "kafka"
    daemon = Daemon(data_dir, *OVERRIDES)
    bootstrap = daemon.bootstrap
    try:
        run(make_past(bootstrap))
        held = sync.Producer(bootstrap).__enter__()
        held_offset = held.send("large", b"held").offset
        mover = sync.Producer(bootstrap, transactional_id="mover", transaction_two_phase_commit_enable=True).__enter__()
        prepared = mover.transaction().__enter__()
        prepared.send("orders", b"prepared", partition=2)
        prepared.prepare()
        described = run(describe(bootstrap, "mover"))
        run(leave_open(bootstrap))
        before = run(observe(bootstrap))
    finally:
        daemon.stop()
    (controller_port,) = free_ports(1)
    settings = done(wish_for(data_dir, kafka_dir, bootstrap, controller_port))
    source = digests(data_dir)
    kafka = Kafka(directory, formatted=(settings, int(bootstrap.rpartition(":")[2])))
    try:
        run(until_groups_are_loaded(bootstrap, len(before.groups)))
        after = run(observe(bootstrap))
        yield Moved(kafka, kafka_dir, data_dir, before, after, described, prepared, held, held_offset, source)
        held.close()
    finally:
        kafka.stop()


def test_topics_settings_contents_groups_and_offsets_are_as_before(moved: Moved) -> None:
    assert moved.after == moved.before
    assert sum(map(len, moved.before.uncommitted.values())) > sum(map(len, moved.before.committed.values())) > 80
    assert moved.before.groups == GROUPS
    assert moved.before.configs["the group modern"] == {"consumer.session.timeout.ms": "46000"}
    assert moved.before.configs["the broker"] == {"log.cleaner.backoff.ms": "16000"}


def test_a_held_producer_repeats_a_batch_as_a_duplicate_and_continues_in_sequence(moved: Moved) -> None:
    assert moved.held.resend_last_batch("large", 0).offset == moved.held_offset
    assert moved.held.send("large", b"next").offset == moved.held_offset + 1


def test_a_transactional_id_continues_as_the_next_epoch_of_its_producer(moved: Moved) -> None:
    async def go_on() -> None:
        old = await describe(moved.kafka.bootstrap, "payer")
        await commit(moved.kafka.bootstrap, b"on Kafka")
        new = await describe(moved.kafka.bootstrap, "payer")
        assert (new.state, new.producer_id) == ("CompleteCommit", old.producer_id)
        assert new.producer_epoch > old.producer_epoch
        assert (await committed_values(moved.kafka.bootstrap))[-1] == b"on Kafka"

    run(go_on())


def test_a_prepared_transaction_is_still_open_and_its_producer_commits_it(moved: Moved) -> None:
    async def state() -> tuple[TransactionDescription, list[bytes | None]]:
        committed = await read(moved.kafka.bootstrap, [PREPARED], "read_committed")
        return await describe(moved.kafka.bootstrap, "mover"), [value for *_, value in committed[PREPARED]]

    described, values = run(state())
    assert described == moved.described
    assert b"prepared" not in values
    moved.prepared.commit()
    run(until_ended(moved.kafka.bootstrap, "mover", "CompleteCommit"))
    assert b"prepared" in run(state())[1]


def test_an_open_transaction_is_aborted_by_its_timeout(moved: Moved) -> None:
    run(until_ended(moved.kafka.bootstrap, "leaver", "CompleteAbort"))


@pytest.mark.parametrize(("group", "protocol"), [("veterans", "classic"), ("modern", "consumer")])
def test_a_group_continues_at_its_offsets(moved: Moved, group: str, protocol: str) -> None:
    async def go_on() -> list[bytes | None]:
        async with Producer(moved.kafka.bootstrap) as producer:
            await producer.send("orders", group.encode(), partition=0)
        async with Consumer(
            "orders", bootstrap_servers=moved.kafka.bootstrap, group_id=group, group_protocol=protocol
        ) as consumer:
            seen: list[bytes | None] = []
            while group.encode() not in seen:
                seen += [record.value for record in await consumer.poll(200)]
            return seen

    old = {value for records in moved.before.committed.values() for *_, value in records}
    assert not old.intersection(run(go_on()))


def test_a_share_group_gets_what_it_has_not_ended_and_nothing_twice(moved: Moved) -> None:
    assert moved.before.offsets["workers"][JOBS].start_offset == LEFT[0]
    assert run(jobs_left(moved.kafka.bootstrap)) == dict.fromkeys(LEFT, 2)


def test_the_source_is_untouched_by_what_kafka_does(moved: Moved) -> None:
    """Although it shares the files of closed segments."""
    shared = [path for path in moved.kafka_dir.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert any(path.suffix == ".log" for path in shared)
    assert digests(moved.data_dir) == moved.source_digests


def test_kafkas_own_tool_reads_the_checkpoint_as_we_do(moved: Moved) -> None:
    checkpoint = moved.kafka_dir / "bootstrap.checkpoint"
    dumped = subprocess.run(
        [
            *java_with_kafka(),
            "org.apache.kafka.tools.DumpLogSegments",
            "--cluster-metadata-decoder",
            "--files",
            checkpoint,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout
    records = decode_snapshot(checkpoint.read_bytes())
    assert "SnapshotHeader" in dumped and "SnapshotFooter" in dumped
    assert dumped.count('payload: {"type":"') == len(records)
    assert dumped.count('"type":"PARTITION_RECORD","version":1') == sum(
        size for _, size in moved.before.topics.values()
    )
    assert "REGISTER_BROKER" not in dumped and "REMOVE_TOPIC" not in dumped


def test_what_a_kill_left_goes_along_in_place(tmp_path: Path) -> None:
    java_with_kafka()
    daemon = Daemon(tmp_path / "data", *OVERRIDES)
    bootstrap = daemon.bootstrap
    try:
        run(make_past(bootstrap))
        prepared = run(prepare(bootstrap))
        before = run(observe(bootstrap))
    finally:
        daemon.kill()
    (controller_port,) = free_ports(1)
    settings = done(wish_for(tmp_path / "data", None, bootstrap, controller_port))
    kafka = Kafka(tmp_path, formatted=(settings, int(bootstrap.rpartition(":")[2])))
    try:
        run(until_groups_are_loaded(bootstrap, len(before.groups)))
        assert run(observe(bootstrap)) == before
        assert run(jobs_left(bootstrap)) == dict.fromkeys(LEFT, 2)
        # Kafka 4.3 lets no second producer take over what is prepared; any client with its id and epoch can end it.
        wire = WireBroker(bootstrap)
        end = EndTxnRequest("mover", prepared.producer_id, prepared.producer_epoch, committed=True)
        assert wire.ask(end, 4).error_code == 0
        wire.close()
        run(until_ended(bootstrap, "mover", "CompleteCommit"))
        assert run(read(bootstrap, [PREPARED], "read_committed"))[PREPARED][-1][-1] == b"prepared"
    finally:
        kafka.stop()
