"""Snapshots of the metadata log: they bound disk, memory and start, and a start never loses what was acknowledged."""

from functools import cache
from itertools import accumulate
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.cluster.metadata_snapshot import decode_snapshot
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.records.batch import iter_batches
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from oncelog.tools.log.check import examine
from tests.clients.administration import BROKER_RESOURCE, change, create, delete
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime
from tests.support.samples import examples

DIRECTORY = "__cluster_metadata-0"
OFTEN = "metadata.log.max.record.bytes.between.snapshots=2000"


def snapshots(disk: MemoryDisk) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in disk.list_dir(DIRECTORY) if name.endswith(".checkpoint")]


def state(broker: VirtualBroker) -> tuple[Any, ...]:
    found = broker.broker.metadata.state
    topics = {name: (topic.topic_id, topic.partition_count, dict(topic.config)) for name, topic in found.topics.items()}
    return found.cluster_id, topics, found.configs, found.features, found.next_producer_id


def grown(*overrides: str, count: int = 40) -> VirtualBroker:
    """A broker that has taken at least two snapshots."""
    broker = VirtualBroker(OFTEN, *overrides)
    change(broker, BROKER_RESOURCE, "", log_retention_ms="100000")
    for number in range(count):
        assert create(broker, f"topic-{number}", 2, retention_ms=str(1_000 + number)) is ErrorCode.NONE
    assert len(snapshots(broker.disk)) == 2
    return broker


@cache
def grown_once() -> VirtualBroker:
    """A shared broker for tests that copy its disk, and ask it for nothing that changes it."""
    return grown()


@cache
def grown_until_due() -> VirtualBroker:
    """A shared broker that takes its next snapshot with the third topic from now."""
    count = 40
    broker = grown(count=count)
    taken = snapshots(broker.disk)
    while snapshots(broker.disk) == taken:
        create(broker, f"topic-{count}", 2, retention_ms=str(1_000 + count))
        count += 1
    return grown(count=count - 3)


def started(disk: MemoryDisk, *overrides: str) -> VirtualBroker:
    return VirtualBroker(OFTEN, *overrides, disk=disk, time=VirtualTime(1_700_000_100_000), seed=9)


def test_topics_that_come_and_go_leave_disk_memory_and_the_next_start_as_they_were() -> None:
    broker = VirtualBroker(OFTEN)
    sizes, replayed = [], []
    for number in range(600):
        name = f"topic-{number}"
        assert create(broker, name) is ErrorCode.NONE and delete(broker, name) is ErrorCode.NONE
        if number % 100 == 99:
            files = [path for path in broker.disk.files if path.startswith(DIRECTORY)]
            sizes.append(sum(len(broker.disk.files[path].data) for path in files))
            replayed.append(broker.killed().broker.metadata._new_bytes)
            assert not broker.broker.metadata.state.removed
            assert len(files) < 30
    assert max(sizes) < 12_500 and max(replayed) < 5_000, "six times the topics and no more bytes"


def test_a_snapshot_is_taken_after_its_time_however_little_has_changed() -> None:
    broker = VirtualBroker("metadata.log.max.snapshot.interval.ms=60000")
    create(broker, "a")
    assert snapshots(broker.disk) == []
    broker.let_pass(60_000)
    create(broker, "b")
    assert len(snapshots(broker.disk)) == 1


@settings(max_examples=examples(60))
@given(st.data())
def test_a_newest_snapshot_that_is_damaged_anywhere_costs_nothing_but_a_line(data: st.DataObject) -> None:
    broker = grown_once()
    disk = broker.disk.kill()
    newest = disk.files[snapshots(disk)[-1]]
    position = data.draw(st.integers(0, len(newest.data) - 1))
    if data.draw(st.booleans()):
        del newest.data[position:]
    else:
        begins = accumulate(len(batch) for _, batch in iter_batches(memoryview(bytes(newest.data))))
        # The checksum leaves out a batch's leader epoch, which means nothing in a snapshot.
        assume(not any(12 <= position - begin < 16 for begin in (0, *begins)))
        newest.data[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises((ProtocolError, KafkaError, ValueError)):
        decode_snapshot(bytes(newest.data))
    again = started(disk)
    assert state(again) == state(broker)
    assert create(again, "next") is ErrorCode.NONE
    assert state(started(again.disk.kill())) == state(again)


def test_a_damaged_snapshot_is_named_in_the_log() -> None:
    disk = grown().disk.kill()
    newest = snapshots(disk)[-1]
    del disk.files[newest].data[-1:]
    (finding, *_) = examine(disk).findings
    assert [note for note in finding.notes if newest in note], "`oncelog log verify` says it too"
    assert [line for line in started(disk).lines if newest in line]


def test_without_a_whole_snapshot_a_log_that_begins_later_does_not_start() -> None:
    disk = grown(count=120).disk.kill()
    for path in snapshots(disk):
        disk.files[path].data[70] ^= 1
    with pytest.raises(StartError) as refused:
        started(disk)
    assert all(path in str(refused.value) for path in snapshots(disk))


# Each seed cuts at every operation; what of the unsynced survives is its chance.
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_a_power_cut_at_any_operation_of_a_snapshot_loses_nothing_that_was_acknowledged(seed: int) -> None:
    operations_left, is_over = 0, False
    before = grown_until_due().broker.metadata.state.topics.keys()
    while not is_over:
        broker, acknowledged = started(grown_until_due().disk.kill()), 0
        taken = snapshots(broker.disk)
        broker.disk.operations_left = operations_left
        try:
            for number in range(10):
                if create(broker, f"later-{number}") is ErrorCode.NONE:
                    acknowledged += 1
            is_over = True
        except PowerCut:
            pass
        disk = broker.disk.crash(Random(seed + operations_left))
        after = started(disk)
        names = after.broker.metadata.state.topics
        assert before | {f"later-{number}" for number in range(acknowledged)} <= names.keys()
        assert state(started(after.disk.kill())) == state(after)
        operations_left += 1
    assert operations_left > 30 and snapshots(broker.disk)[-1] != taken[-1], "a snapshot was among them"


def test_a_snapshot_that_is_ahead_of_its_log_is_used_and_what_comes_later_lies_behind_it() -> None:
    """A power cut with the flush policy os may take the end of the log and leave the snapshot, which is synced."""
    policy = "oncelog.flush.policy=os"
    broker = grown(policy)
    disk = broker.disk.kill()
    for number in range(40):
        create(broker, f"later-{number}")
    newest = snapshots(broker.disk)[-1]
    disk.files[newest] = broker.disk.kill().files[newest]
    end_offset = int(newest.rpartition("/")[2][:20])
    again = started(disk, policy)
    assert any("is used from" in line for line in again.lines)
    names = set(again.broker.metadata.state.topics)
    assert "later-0" in names and names <= set(broker.broker.metadata.state.topics)
    assert again.broker.metadata._log.log_end_offset >= end_offset
    assert create(again, "next") is ErrorCode.NONE
    assert state(started(again.disk.kill(), policy)) == state(again)


def test_no_room_for_a_snapshot_is_no_reason_to_refuse_a_change_or_to_stop() -> None:
    broker = VirtualBroker(OFTEN)

    def refuse(path: str) -> OSError | None:
        return OSError(28, "No space left on device", path) if path.endswith(".checkpoint") else None

    broker.disk.append_error = refuse
    for number in range(40):
        assert create(broker, f"topic-{number}") is ErrorCode.NONE
    assert snapshots(broker.disk) == [] and broker.disk_failures == []
    broker.disk.append_error = None
    for number in range(40, 80):
        assert create(broker, f"topic-{number}") is ErrorCode.NONE
    assert snapshots(broker.disk)
    assert state(broker.killed()) == state(broker)
