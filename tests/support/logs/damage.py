"""The table of damaged files: 30 offsets in four segments, what is done to their files, and what a client then sees.

The same questions go to a broker in memory (`tests.fakes.broker`) and to a real one (`tests.clients.wire`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records
from oncelog.testing.memory_disk import MemoryDisk

TOPIC = "damaged"
BASE_OFFSETS = (0, 7, 12, 17)
END_OFFSET = 30
ABORTED_OFFSET, MARKER_OFFSET = 7, 8
ACKNOWLEDGED = tuple(set(range(END_OFFSET)) - {ABORTED_OFFSET, MARKER_OFFSET})
_SEGMENT_GAP_MS = 60_000


class Broker(Protocol):
    def ask(self, request: Message, version: int) -> Any: ...

    def let_pass(self, delay_ms: int) -> None: ...


# --- filling ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filled:
    last_batch: bytes
    """The last batch of the idempotent producer, at offset 29."""


def fill(broker: Broker, wall_ms: int) -> Filled:
    """28 acknowledged records, one aborted, its marker; segments end where the records' timestamps leap."""
    settings = {"segment.ms": "10000", "index.interval.bytes": "100"}
    topic = CreatableTopic(
        name=TOPIC,
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in settings.items()],
    )
    assert broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics[0].error_code == 0
    broker.ask(FindCoordinatorRequest(key="aborting", key_type=1), 2)
    producer_id = broker.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4).producer_id
    data, sequence = b"", 0
    for offset in range(END_OFFSET):
        timestamp = wall_ms + sum(offset >= base for base in BASE_OFFSETS) * _SEGMENT_GAP_MS
        if offset == ABORTED_OFFSET:
            _abort_a_transaction(broker, timestamp)
        elif offset != MARKER_OFFSET:
            data = _batch(offset, timestamp, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            sequence += 1
            assert produce(broker, data) == (ErrorCode.NONE, offset)
    return Filled(data)


def _batch(number: int, timestamp: int, **producer: Any) -> bytes:
    return encode_batch([Record(0, timestamp, None, b"%d" % number)], **producer)


def _abort_a_transaction(broker: Broker, timestamp: int) -> None:
    while True:
        answer = broker.ask(InitProducerIdRequest(transactional_id="aborting", transaction_timeout_ms=10_000), 4)
        if not ErrorCode(answer.error_code).retriable:
            break
        broker.let_pass(50)
    identity = {
        "transactional_id": "aborting",
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }
    topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,))]
    broker.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_topics=topics, **{f"v3_and_below_{name}": value for name, value in identity.items()}
        ),
        3,
    )
    data = _batch(
        ABORTED_OFFSET,
        timestamp,
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    assert produce(broker, data, "aborting") == (ErrorCode.NONE, ABORTED_OFFSET)
    assert broker.ask(EndTxnRequest(committed=False, **identity), 3).error_code == 0
    while list_offset(broker) != (ErrorCode.NONE, MARKER_OFFSET + 1):
        broker.let_pass(20)


def produce(broker: Broker, data: bytes, transactional_id: str | None = None) -> tuple[ErrorCode, int]:
    partition = PartitionProduceData(index=0, records=memoryview(data))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=TOPIC, partition_data=[partition])],
    )
    answer = broker.ask(request, 8).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset


def list_offset(broker: Broker, topic: str = TOPIC, *, isolation_level: int = 1) -> tuple[ErrorCode, int]:
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = broker.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=[wanted]), 5)
    partition = answer.topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.offset


# --- damaging ---------------------------------------------------------------------------------------------------------


class Files(Protocol):
    """The data directory of a broker that is not running."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, data: bytes) -> None: ...

    def delete(self, name: str) -> None: ...


class MemoryFiles:
    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def names(self) -> list[str]:
        return sorted(self._disk.files)

    def read(self, name: str) -> bytes:
        return bytes(self._disk.files[name].data)

    def write(self, name: str, data: bytes) -> None:
        self._disk.open(name)
        self._disk.files[name].data[:] = data

    def delete(self, name: str) -> None:
        del self._disk.files[name]


class RealFiles:
    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> list[str]:
        return sorted(str(path.relative_to(self._root)) for path in self._root.rglob("*") if path.is_file())

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        (self._root / name).write_bytes(data)

    def delete(self, name: str) -> None:
        (self._root / name).unlink()


def _all(files: Files, suffix: str) -> list[str]:
    return [name for name in files.names() if name.startswith(f"{TOPIC}-0/") and name.endswith(suffix)]


def log_file(base_offset: int) -> str:
    return f"{TOPIC}-0/{base_offset:020d}.log"


ACTIVE, OLDEST, MIDDLE = log_file(17), log_file(0), log_file(7)
Damage = Callable[[Files], None]


def _each(suffix: str, change: Callable[[bytes], bytes | None]) -> Damage:
    def damage(files: Files) -> None:
        for name in _all(files, suffix):
            data = change(files.read(name))
            if data is None:
                files.delete(name)
            else:
                files.write(name, data)

    return damage


def _one(name: str, change: Callable[[bytes], bytes | None]) -> Damage:
    def damage(files: Files) -> None:
        if name in files.names():
            data = change(files.read(name))
            if data is None:
                files.delete(name)
            else:
                files.write(name, data)

    return damage


def _flipped(position: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        at = position % len(data)
        return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]

    return change


def _snapshot_from_the_future(files: Files) -> None:
    newest = _all(files, ".snapshot")[-1]
    files.write(f"{TOPIC}-0/{9999:020d}.snapshot", files.read(newest))


def _foreign_snapshot(files: Files) -> None:
    oldest, *_, newest = _all(files, ".snapshot")
    files.write(newest, files.read(oldest))


def _all_but_the_logs_gone(files: Files) -> None:
    for name in _all(files, ""):
        if not name.endswith(".log"):
            files.delete(name)


def _noise(size: int) -> bytes:
    return bytes((index * 167 + 13) % 256 for index in range(size))


def _gone(_: bytes) -> None:
    return None


HARMLESS: Mapping[str, Damage] = {
    "none": lambda files: None,
    "100 random bytes after tail": _one(ACTIVE, lambda data: data + _noise(100)),
    "4096 zero bytes after tail": _one(ACTIVE, lambda data: data + bytes(4096)),
    "all .index deleted": _each(".index", _gone),
    "all .timeindex deleted": _each(".timeindex", _gone),
    ".index cut to 13 bytes": _each(".index", lambda data: data[:13]),
    ".index = 64 random bytes": _each(".index", lambda data: _noise(64)),
    ".txnindex deleted": _each(".txnindex", _gone),
    ".txnindex emptied": _each(".txnindex", lambda data: b""),
    "all .snapshot deleted": _each(".snapshot", _gone),
    ".snapshot corrupt": _each(".snapshot", _flipped(-3)),
    ".snapshot from the future": _snapshot_from_the_future,
    ".snapshot of another offset": _foreign_snapshot,
    "all .batches deleted": _each(".batches", _gone),
    ".batches corrupt": _each(".batches", _flipped(-3)),
    "leader-epoch-checkpoint deleted": _one(f"{TOPIC}-0/leader-epoch-checkpoint", _gone),
    "leader-epoch-checkpoint corrupt": _one(f"{TOPIC}-0/leader-epoch-checkpoint", lambda data: data[:-2]),
    "leader-epoch-checkpoint of another log": _one(f"{TOPIC}-0/leader-epoch-checkpoint", lambda data: b"0\n1\n5 0\n"),
    "segment-manifest deleted": _each("segment-manifest", _gone),
    "segment-manifest corrupt": _each("segment-manifest", lambda data: _noise(len(data))),
    "flushed-offsets deleted": _one("flushed-offsets", _gone),
    "flushed-offsets corrupt": _one("flushed-offsets", lambda data: _noise(len(data))),
    "recovery-point-offset-checkpoint corrupt": _one("recovery-point-offset-checkpoint", lambda data: _noise(10)),
    "clean stop forgotten": _one(".kafka_cleanshutdown", _gone),
    "all but the .log deleted": _all_but_the_logs_gone,
}
"""Damage that can be repaired: afterwards all is as before."""

DESTRUCTIVE: Mapping[str, tuple[Damage, str]] = {
    "torn tail (-7 bytes)": (_one(ACTIVE, lambda data: data[:-7]), ACTIVE),
    "byte flipped near the end of the active segment": (_one(ACTIVE, _flipped(-3)), ACTIVE),
    "byte flipped in the oldest segment": (_one(OLDEST, _flipped(-3)), OLDEST),
    "byte flipped in a header of the oldest segment": (_one(OLDEST, _flipped(58)), OLDEST),
    "active .log deleted": (_one(ACTIVE, _gone), ACTIVE),
    "active .log emptied": (_one(ACTIVE, lambda data: b""), ACTIVE),
    "middle .log deleted": (_one(MIDDLE, _gone), MIDDLE),
    "oldest .log deleted": (_one(OLDEST, _gone), OLDEST),
    "all .log deleted": (_each(".log", _gone), f"{TOPIC}-0"),
}
"""Damage that destroys acknowledged records, and the file that must be named for each."""


# --- looking ----------------------------------------------------------------------------------------------------------


@dataclass
class Seen:
    """The result of a read_committed reader that checks nothing itself, like librdkafka by default."""

    offsets: list[int] = field(default_factory=list)
    is_right: bool = True
    """Every value is what was sent at that offset."""
    error: ErrorCode = ErrorCode.NONE

    @property
    def missing(self) -> list[int]:
        return sorted(set(ACKNOWLEDGED) - set(self.offsets))


def read_committed(broker: Broker) -> Seen:
    seen = Seen()
    offset = 0
    while offset < END_OFFSET:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=200)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=10_000,
            isolation_level=1,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        answer = broker.ask(request, 11).responses[0].partitions[0]
        seen.error = ErrorCode(answer.error_code)
        if seen.error is not ErrorCode.NONE:
            return seen
        aborted = {entry.producer_id: entry.first_offset for entry in answer.aborted_transactions or ()}
        next_offset = _take(seen, memoryview(answer.records or b""), offset, aborted)
        if next_offset == offset:
            return seen
        offset = next_offset
    return seen


def _take(seen: Seen, records: memoryview, offset: int, aborted: dict[int, int]) -> int:
    try:
        for header, batch in iter_batches(records):
            offset = header.base_offset + header.last_offset_delta + 1
            if header.is_control:
                if decode_end_txn_marker(batch)[0] is ControlRecordType.ABORT:
                    aborted.pop(header.producer_id, None)
            elif not (header.is_transactional and aborted.get(header.producer_id, END_OFFSET) <= header.base_offset):
                for record in decode_records(batch):
                    seen.offsets.append(record.offset)
                    seen.is_right &= record.value == b"%d" % record.offset
    except ProtocolError:
        seen.is_right = False
    return offset


# --- every file, every kind of damage ---------------------------------------------------------------------------------


def _unreadable(disk: MemoryDisk, path: str) -> None:
    disk.unreadable.add(path)


def _refused(disk: MemoryDisk, path: str) -> None:
    disk.refused.add(path)


def _directory_instead(disk: MemoryDisk, path: str) -> None:
    del disk.files[path]
    disk.directories.add(path)


def _changed(change: Callable[[bytes], bytes | None]) -> Callable[[MemoryDisk, str], None]:
    def damage(disk: MemoryDisk, path: str) -> None:
        data = change(bytes(disk.files[path].data))
        if data is None:
            del disk.files[path]
        else:
            disk.files[path].data[:] = data

    return damage


KINDS: Mapping[str, Callable[[MemoryDisk, str], None]] = {
    "missing": _changed(_gone),
    "empty": _changed(lambda data: b""),
    "truncated": _changed(lambda data: data[: len(data) * 2 // 3]),
    "garbage": _changed(lambda data: _noise(len(data))),
    "EIO": _unreadable,
    "EACCES": _refused,
    "is a directory": _directory_instead,
}
"""The kinds of damage that any file can have."""

NOTHING_DEPENDS_ON = (
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "boot",
)
"""Files that are written for others, and that no start reads; with another last one it takes a kill for a power cut."""


def _holds_a_round(data: bytes) -> bool:
    """Whether this file of the journal has any frame but its head."""
    return data.count(b"oncejrnl") > 1


def is_silently_harmless(path: str, kind: str, data: bytes) -> bool:
    """Whether the damage needs no report: no start reads the file, or nothing is lost."""
    if path in NOTHING_DEPENDS_ON or (kind in ("empty", "truncated", "garbage") and not data):
        return True
    if path == "flushed-offsets" and kind == "truncated":
        return True  # without its last entries it lags, as after a power cut; nothing is lost by that alone
    if path.startswith("journal."):  # the other one is the newer, or only what is allocated ahead is gone
        return kind == "truncated" or not _holds_a_round(data)
    return path == "cleaner-offset-checkpoint" and kind == "missing"  # as where nothing was ever compacted
