"""What is not in the page cache is read beside the event loop: answers are the same, and nothing else waits."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.storage.local import segment
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.testing.memory_disk import MemoryFile
from tests.clients.administration import delete, delete_records
from tests.clients.fetch_session import BY_ID, append, create, fetch_in_tiny_slices, fetch_request, told
from tests.fakes.broker import Reply, VirtualBroker

TOPIC = "topic"
PARTITIONS = 5


class ColdDisk:
    """A disk where a log's earlier bytes miss the page cache: reading them on the event loop fails the test."""

    def __init__(self, broker: VirtualBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads = 0
        broker.disk.is_cold = lambda path, start, end: path.endswith(".log")
        view, read_range = MemoryFile.read_view, broker.disk.read_range
        cold_bytes = {path: len(inode.data) for path, inode in broker.disk.files.items() if path.endswith(".log")}

        def refused(file: MemoryFile, start: int, end: int) -> memoryview:
            assert start >= cold_bytes.get(file.path, 0), "the event loop waits for the disk"
            return view(file, start, end)

        def counted(path: str, start: int, end: int) -> bytes:
            self.reads += 1
            return read_range(path, start, end)

        monkeypatch.setattr(MemoryFile, "read_view", refused)
        monkeypatch.setattr(broker.disk, "read_range", counted)


def started(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[VirtualBroker, UUID, ColdDisk]:
    """A broker that finds three records in each partition on a disk that is slow to give them."""
    broker = VirtualBroker()
    topic_id = create(broker, TOPIC, PARTITIONS)
    for index in range(PARTITIONS):
        append(broker, TOPIC, index, 3, **options)
    broker.time.settle()
    broker.broker.logs.close()
    broker = broker.killed()
    return broker, topic_id, ColdDisk(broker, monkeypatch)


def everything(topic_id: UUID, **options: Any) -> Any:
    return fetch_request({(topic_id, index): 0 for index in range(PARTITIONS)}, **options)


def answers_meanwhile(broker: VirtualBroker, reply: Reply) -> None:
    """`reply` waits for the disk, and another connection gets its answer."""
    assert not reply.is_there
    assert broker.start(ApiVersionsRequest(), 3).is_there


def test_a_fetch_waits_for_the_disk_beside_the_loop_and_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, topic_id, disk = started(monkeypatch)
    reply = broker.start(everything(topic_id), BY_ID)
    answers_meanwhile(broker, reply)
    broker.time.settle()
    cold = told(reply.message)
    assert disk.reads >= PARTITIONS
    monkeypatch.undo()
    broker.disk.is_cold = lambda path, start, end: False
    warm = told(broker.ask(everything(topic_id), BY_ID))
    assert {key: bytes(data.records) for key, data in cold.items()} == {
        key: bytes(data.records) for key, data in warm.items()
    }
    assert all(data.records for data in warm.values())


@pytest.mark.parametrize("isolation", [0, 1])
def test_records_that_come_while_a_fetch_waits_for_the_disk_are_left_to_the_next(
    isolation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The visible end is fixed when the answer is planned, in all partitions at once."""
    broker, topic_id, _ = started(monkeypatch)
    reply = broker.start(everything(topic_id, isolation_level=isolation), BY_ID)
    for index in range(PARTITIONS):
        append(broker, TOPIC, index, 2)
    broker.time.settle()
    found = told(reply.message)
    assert {data.high_watermark for data in found.values()} == {3}


def test_a_session_continues_after_a_response_that_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, topic_id, _ = started(monkeypatch)
    first = broker.send(everything(topic_id, session_epoch=0), BY_ID).message
    assert len(told(first)) == PARTITIONS
    offsets = {(topic_id, index): 3 for index in range(PARTITIONS)}
    request = fetch_request(offsets, session_id=first.session_id, session_epoch=1)
    assert broker.send(request, BY_ID).message.error_code == ErrorCode.NONE
    append(broker, TOPIC, 2)
    broker.time.settle()
    again = broker.send(fetch_request({}, session_id=first.session_id, session_epoch=2), BY_ID).message
    assert [index for _, index in told(again)] == [2]


def test_many_partitions_are_read_in_slices_and_wait_for_the_disk_together(monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_in_tiny_slices(monkeypatch)
    broker, topic_id, _ = started(monkeypatch)
    found = told(broker.send(everything(topic_id), BY_ID).message)
    assert len(found) == PARTITIONS
    assert all(data.records for data in found.values())


def test_an_answer_keeps_to_its_bytes_though_it_does_not_know_yet_what_it_will_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, topic_id, _ = started(monkeypatch)
    found = told(broker.send(everything(topic_id, max_bytes=1), BY_ID).message)
    assert sum(bool(data.records) for data in found.values()) == 1


@pytest.mark.parametrize(
    ("meanwhile", "code"),
    [
        (lambda broker: delete_records(broker, TOPIC, 3), ErrorCode.OFFSET_OUT_OF_RANGE),
        (lambda broker: delete(broker, TOPIC), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=["the start moves", "the topic is deleted"],
)
def test_what_happens_to_a_partition_while_a_fetch_waits_for_the_disk_is_what_it_answers(
    meanwhile: Callable[[VirtualBroker], Any], code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, topic_id, _ = started(monkeypatch)
    held: list[Callable[[], None]] = []
    monkeypatch.setattr(
        broker.faults.time, "run_beside", lambda function, done: held.append(lambda: (function(), done(None)))
    )
    reply = broker.start(fetch_request({(topic_id, 0): 0}), BY_ID)
    broker.time.settle()
    meanwhile(broker)
    assert not reply.is_there
    while held:
        held.pop()()
        broker.time.settle()
    (data,) = told(reply.message).values()
    assert data.error_code == code


def test_a_client_that_goes_while_its_fetch_waits_for_the_disk_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, topic_id, _ = started(monkeypatch)
    reply = broker.start(everything(topic_id), BY_ID)
    reply._exchange._context.peer.disconnect()
    broker.time.settle()
    assert not reply.is_there
    assert broker.broker.purgatory.watcher_count == 0


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize(("timestamp", "offset"), [(0, 0), (-3, 2)])
def test_a_search_by_time_reads_and_decompresses_beside_the_loop(
    timestamp: int, offset: int, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, _, disk = started(monkeypatch, compression=compression)
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(PARTITIONS)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=partitions)])
    reply = broker.start(request, 7)
    answers_meanwhile(broker, reply)
    broker.time.settle()
    (topic,) = reply.message.topics
    assert [partition.offset for partition in topic.partitions] == [offset] * PARTITIONS
    assert {partition.error_code for partition in topic.partitions} == {ErrorCode.NONE}
    assert disk.reads > 0


def test_what_was_written_a_moment_ago_is_read_without_asking_the_page_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "_WARM_BYTES", 2_000)
    broker = VirtualBroker()
    topic_id = create(broker, TOPIC, 1)
    asked: list[int] = []
    broker.disk.is_cold = lambda path, start, end: asked.append(start) or False
    for _ in range(400):
        append(broker, TOPIC, 0, 1)
        broker.time.settle()
    offset = broker.broker.topics.partition(TOPIC, 0).log_end_offset - 1
    told(broker.ask(fetch_request({(topic_id, 0): offset}), BY_ID))
    assert not asked
    told(broker.ask(fetch_request({(topic_id, 0): 0}), BY_ID))
    assert asked == [0]
