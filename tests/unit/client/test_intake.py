"""A record goes into the buffer in one step, or not at all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from oncelog.client.producing.accumulator import Accumulator
from oncelog.client.producing.batch import Batch, ProducerIdentity
from oncelog.client.producing.intake import Intake
from oncelog.client.values.errors import AbortableError, ConfigError
from oncelog.client.values.records import TopicPartition
from oncelog.client.wire.metadata import Topic
from oncelog.protocol.records.record import Record, decode_records

BATCH_BYTES = 1_000
PARTITIONS = 3


class Buffer:
    """A topic of three partitions; what is taken from it is the batches in the order of their sending."""

    def __init__(self, buffer_bytes: int = 1 << 20) -> None:
        self.accumulator = Accumulator(batch_size=BATCH_BYTES, linger_s=0, buffer_memory_bytes=buffer_bytes)
        self.topics = {"topic": Topic("topic", UUID(int=0), (1,) * PARTITIONS)}
        self.woken = 0
        self.failed: list[Batch] = []
        self.intake = Intake(
            self.topics,
            self.accumulator,
            max_record_bytes=5_000,
            clock_s=lambda: 0.0,
            wake=self._wake,
            check_loop=lambda: None,
            on_failed=self.failed.append,
        )

    def _wake(self) -> None:
        self.woken += 1

    def add(self, value: object, key: object = None, partition: int | None = None) -> bool:
        return self.intake.add("topic", key, value, (), partition, 7) is not None

    def sent(self, partition: int) -> list[list[Record]]:
        queue = self.accumulator.queue(TopicPartition("topic", partition))
        queue.close_batches()
        batches = []
        while batch := queue.take(ProducerIdentity(), 0.0, compression="none", transactional=False):
            batches.append(decode_records(memoryview(batch.encoded or b"")))
            queue.on_written(batch, 0, -1)
        return batches


@contextmanager
def changed_afterwards(content: bytearray) -> Iterator[bytearray]:
    yield content
    content[:] = bytes(len(content))


def test_records_without_a_key_fill_one_batch_after_the_other_in_all_partitions() -> None:
    buffer = Buffer()
    for number in range(90):
        assert buffer.add(b"%04d" % number + bytes(96))
    counts = [[len(records) for records in buffer.sent(partition)] for partition in range(PARTITIONS)]
    full = max(max(each) for each in counts)
    assert full > 5
    assert Counter(count for each in counts for count in each)[full] >= 90 // full
    assert max(map(len, counts)) - min(map(len, counts)) <= 1


def test_a_partition_gets_its_records_in_order() -> None:
    buffer = Buffer()
    for number in range(90):
        buffer.add(b"%04d" % number, partition=1)
    records = [record for batch in buffer.sent(1) for record in batch]
    assert [record.value for record in records] == [b"%04d" % number for number in range(90)]


def test_a_caller_that_never_yields_is_asked_at_each_full_batch_to_let_the_sender_run() -> None:
    buffer = Buffer()
    told = 0
    for _ in range(60):
        buffer.add(bytes(100), partition=0)
        told += buffer.intake.has_filled_a_batch
    assert told == len(buffer.sent(0)) - 1 == buffer.woken - 1


def test_a_value_that_its_owner_changes_afterwards_is_sent_as_it_was() -> None:
    buffer = Buffer()
    with changed_afterwards(bytearray(b"value")) as value, changed_afterwards(bytearray(b"key")) as key:
        buffer.add(value, key, partition=0)
        buffer.add(memoryview(value), memoryview(key), partition=0)
    assert [(each.key, each.value) for each in buffer.sent(0)[0]] == [(b"key", b"value")] * 2


def test_a_record_waits_for_metadata_and_for_room() -> None:
    buffer = Buffer(buffer_bytes=BATCH_BYTES)
    assert buffer.intake.add("unknown", None, b"", (), None, None) is None
    assert buffer.add(b"", partition=0)
    assert not buffer.add(b"", partition=0)
    buffer.sent(0)
    assert buffer.add(b"", partition=0)


@pytest.mark.parametrize(
    ("key", "value", "partition", "error"),
    [
        (None, "text", 0, ConfigError),
        (7, b"", 0, ConfigError),
        (None, b"", PARTITIONS, ConfigError),
        (None, b"", -1, ConfigError),
        (None, bytes(5_001), 0, AbortableError),
        (bytes(1), bytes(5_000), 0, AbortableError),
    ],
)
def test_what_cannot_be_sent_is_refused_and_leaves_nothing_behind(
    key: object, value: object, partition: int, error: type[Exception]
) -> None:
    buffer = Buffer()
    with pytest.raises(error):
        buffer.add(value, key, partition)
    assert [buffer.sent(each) for each in range(PARTITIONS)] == [[], [], []]
