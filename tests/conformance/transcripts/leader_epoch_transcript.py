"""A conversation about leader epochs over five lives of a broker, one of which begins after kill -9.

Owns: the questions, and which part of an answer counts. Does not own: how a broker is stopped and started again.
"""

from typing import Any, Protocol

from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import iter_batches
from tests.clients.asking import AT_MS, NO_ID, Asker, Reply, Told, batch, one_partition
from tests.conformance.recording import Differences

WRITTEN, SELDOM, NEVER, GROWN, LATER = ("first", 0), ("first", 1), ("first", 2), ("first", 3), ("second", 0)
"""Partitions: written in each life but the third, written in the first alone, never, made in the second life, of a
topic made there."""
ALL = (WRITTEN, SELDOM, NEVER, GROWN, LATER)
_EVERYTHING = 2**31 - 1
_IDLE = {
    "first life": ("first-2",),
    "second life, before any append": ("first-0", "first-1", "first-2"),
    "second life": ("first-1", "first-2"),
    "third life": ("first-0", "first-1", "first-2", "first-3", "second-0"),
    "after kill -9": ("first-0", "first-1", "first-2", "first-3", "second-0"),
    "fifth life": ("first-0", "first-1", "first-2", "first-3", "second-0"),
}
"""The logs without a record in an epoch yet, by life."""
# Kafka writes a file for each partition at each start. Ours comes with the first record of an epoch, so that 10,000
# idle partitions do not delay a start.
DIFFERENCES: Differences = {
    f"{life}: {log}: in the file, without records": ("a start alone writes no file of a partition", [])
    for life, logs in _IDLE.items()
    for log in logs
}


class LivingBroker(Protocol):
    def send(self, request: Message, version: int, *, client_id: str = "client") -> Reply: ...

    def let_pass(self, delay_ms: int) -> None: ...

    def restart(self) -> None: ...

    def kill(self) -> None: ...

    def epoch_file(self, topic: str, partition: int) -> str | None:
        """The text of `leader-epoch-checkpoint`; None without the file."""
        ...


def conversation(broker: LivingBroker) -> Told:
    talk = _Talk(broker)
    talk.make("first", 3)
    for partition in (WRITTEN, SELDOM):
        talk.produce(partition, 3)
    yield from talk.life("first life", (WRITTEN, SELDOM, NEVER))
    broker.restart()
    yield from talk.life("second life, before any append", (WRITTEN, SELDOM, NEVER))
    talk.make("second", 1)
    talk.grow("first", 4)
    for partition in (WRITTEN, GROWN, LATER):
        talk.produce(partition, 2)
    yield from talk.life("second life", ALL)
    broker.restart()
    yield from talk.life("third life", ALL)
    broker.kill()
    yield from talk.life("after kill -9", ALL)
    talk.produce(WRITTEN, 1)
    yield from talk.life("after kill -9, written", (WRITTEN,))
    broker.restart()
    yield from talk.life("fifth life", ALL)


class _Talk(Asker):
    def __init__(self, broker: LivingBroker) -> None:
        super().__init__(broker)
        self.ids = {}
        self._file = broker.epoch_file

    def make(self, topic: str, partitions: int) -> None:
        self.create(topic, partitions)
        self._wait()

    def grow(self, topic: str, count: int) -> None:
        fields = {"topics": [(topic, count, None)], "timeout_ms": 10_000}
        assert self.ask("CreatePartitions", 3, "results.error_code", **fields) == ["NONE"]
        self._wait()

    def _wait(self) -> None:
        """Metadata and leaders follow the controller."""
        self.broker.let_pass(1_000)
        for partition in self.epochs():
            while self.list_offset(partition, -1)[0] != "NONE":
                self.broker.let_pass(100)

    def epochs(self) -> dict[tuple[str, int], int]:
        """The leaders' epochs in Metadata."""
        topics = [{"name": topic, "topic_id": NO_ID} for topic in self.ids]
        found = self.ask("Metadata", 12, "topics/partitions(name partition_index leader_epoch)", topics=topics)
        return {(topic, index): epoch for topic, index, epoch in found}

    def produce(self, partition: tuple[str, int], count: int) -> None:
        """Batches of one record."""
        for _ in range(count):
            data = [{"index": partition[1], "records": batch([b"x"])}]
            topics = [{"topic_id": self.ids[partition[0]], "partition_data": data}]
            shape = "responses/partition_responses.error_code"
            assert self.ask("Produce", 13, shape, acks=-1, timeout_ms=5_000, topic_data=topics) == ["NONE"]

    def list_offset(self, partition: tuple[str, int], timestamp: int, current_epoch: int = -1) -> tuple[Any, ...]:
        topics = one_partition(*partition, current_leader_epoch=current_epoch, timestamp=timestamp)
        shape = "topics.0.partitions.0(error_code offset leader_epoch)"
        found: tuple[Any, ...] = self.ask("ListOffsets", 7, shape, replica_id=-1, topics=topics)
        return found

    def fetch(self, partition: tuple[str, int], offset: int, *, current: int = -1, last: int = -1) -> tuple[Any, ...]:
        asked = {
            "partition": partition[1],
            "fetch_offset": offset,
            "current_leader_epoch": current,
            "last_fetched_epoch": last,
            "partition_max_bytes": _EVERYTHING,
        }
        topics = [{"topic_id": self.ids[partition[0]], "partitions": [asked]}]
        answer = self.ask("Fetch", 16, max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=topics)
        shape = (
            "responses.0.partitions.0(error_code current_leader(leader_id:is_known leader_epoch) "
            "diverging_epoch(epoch end_offset) records:epochs)"
        )
        found: tuple[Any, ...] = self.counts(
            answer, shape, is_known=lambda leader_id: leader_id >= 0, epochs=_epochs_of_batches
        )
        return found

    def end_of(self, partition: tuple[str, int], epoch: int, current: int = -1) -> tuple[Any, ...]:
        asked = {"partition": partition[1], "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": partition[0], "partitions": [asked]}]
        shape = "topics.0.partitions.0(error_code leader_epoch end_offset)"
        found: tuple[Any, ...] = self.ask("OffsetForLeaderEpoch", 4, shape, topics=topics)
        return found

    def life(self, name: str, partitions: tuple[tuple[str, int], ...]) -> Told:
        self._wait()
        for partition in partitions:
            epoch = self.epochs()[partition]
            where = f"{name}: {partition[0]}-{partition[1]}"
            yield f"{where}: the epoch in Metadata", epoch
            yield f"{where}: ListOffsets", [self.list_offset(partition, timestamp) for timestamp in (-2, -1, AT_MS, -3)]
            yield f"{where}: batches", self.fetch(partition, 0)
            for asked in range(-1, epoch + 2):
                yield f"{where}: the end of epoch {asked}", self.end_of(partition, asked)
            end = self.list_offset(partition, -1)[1]
            written = _entries(self._file(*partition))
            yield f"{where}: in the file, with records", [entry for entry in written if entry[1] < end]
            yield f"{where}: in the file, without records", [entry for entry in written if entry[1] >= end]
            for current in (epoch - 2, epoch - 1, epoch, epoch + 1):
                yield (
                    f"{where}: asked with epoch {current}",
                    (
                        self.fetch(partition, end, current=current),
                        self.list_offset(partition, -1, current),
                        self.end_of(partition, epoch, current),
                    ),
                )
            for last in range(epoch + 2):
                yield f"{where}: read last in epoch {last}", self.fetch(partition, end, current=epoch, last=last)


def _epochs_of_batches(records: Any) -> list[tuple[int, int]]:
    headers = [header for header, _ in iter_batches(memoryview(records or b""))]
    return [(header.base_offset, header.partition_leader_epoch) for header in headers]


def _entries(file: str | None) -> list[tuple[int, int]]:
    """Epoch and start offset, as Kafka's checkpoint files have them."""
    if file is None:
        return []
    version, count, *lines = file.splitlines()
    assert (version, int(count)) == ("0", len(lines))
    return [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
