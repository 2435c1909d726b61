"""A conversation about batches whose compressed data are several frames, or have a rest: what is accepted, what of it
is read back, and what a look-up by time finds in it.

Each is sent to a topic that keeps it as it is, to one with another codec, for which it is encoded again, and to a
compacted one.
"""

from typing import Any

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.record import decode_records
from tests.clients.asking import Broker, Told, one_partition
from tests.conformance.transcripts.produce_transcript import ProduceTalk, batch
from tests.support.requests.frame_shapes import COMPRESSING, RECORDS, START_MS, batch_of, shapes

OTHER_CODEC = {"gzip": "lz4", "snappy": "gzip", "lz4": "zstd", "zstd": "uncompressed"}
KINDS = ("as it is", "encoded again", "compacted")
UNREADABLE = "a reader is refused"
SOUGHT = 27
"""The index of the record whose time is looked up: in the second of two frames."""


def conversation(broker: Broker) -> Told:
    talk = ProduceTalk(broker)
    for codec in COMPRESSING:
        topics = {
            "as it is": talk.made(f"{codec}-as-it-is"),
            "encoded again": talk.made(f"{codec}-encoded-again", compression_type=OTHER_CODEC[codec]),
            "compacted": _compacted(talk, codec),
        }
        for number, (shape, data) in enumerate(shapes(codec).items(), start=1):
            start_ms = START_MS + 1_000 * number
            for kind in KINDS:
                yield f"{codec}: {shape}, {kind}", _answer(talk, topics[kind], batch_of(codec, data, start_ms))


def _compacted(talk: ProduceTalk, codec: str) -> str:
    name = talk.made(f"{codec}-compacted")  # waits until a record without a key is accepted
    change = {"resource_type": 2, "resource_name": name, "configs": [("cleanup.policy", 0, "compact")]}
    talk.ask("IncrementalAlterConfigs", 1, resources=[change], validate_only=False)
    while talk.produce(name, batch())[0] != "INVALID_RECORD":
        talk.broker.let_pass(100)
    return name


def _answer(talk: ProduceTalk, topic: str, data: bytes) -> tuple[Any, ...]:
    """The code and the records at fault; if it was accepted: whether all records are there, in order, and which of them
    a look-up finds."""
    start_ms = int.from_bytes(data[27:35], "big")
    code, base_offset, bad = talk.produce(topic, data)
    if code != "NONE":
        return code, bad
    found = _sought(talk, topic, start_ms + SOUGHT)
    try:
        read = [each for each in _records(talk, topic, base_offset) if each.offset >= base_offset]
    except ProtocolError:
        return code, bad, UNREADABLE
    as_sent = [(each.offset - base_offset, each.timestamp - start_ms, each.key, each.value) for each in read]
    wanted = [(each.offset, each.timestamp - START_MS, each.key, each.value) for each in RECORDS]
    return code, bad, as_sent == wanted, found - base_offset


def _sought(talk: ProduceTalk, topic: str, timestamp_ms: int) -> int:
    topics = one_partition(topic, timestamp=timestamp_ms)
    offset: int = talk.ask("ListOffsets", 5, "topics.0.partitions.0.offset", replica_id=-1, topics=topics)
    return offset


def _records(talk: ProduceTalk, topic: str, offset: int) -> list[Any]:
    return [record for _, batch in talk.read(topic, offset) for record in decode_records(batch)]


_EXCEPTION = "Kafka meets an exception of its own (UNKNOWN_SERVER_ERROR), we answer the code that fits"
_DAMAGED = {
    "gzip": ("half of the second", "a wrong sum in the second"),
    "lz4": ("a skippable frame before",),
    "snappy": (
        "half of the second",
        "half of another behind",
        "garbage behind",
        "20 zeros behind",
        "a magic number behind",
        "garbage between",
        "zeros between",
        "a block of no bytes between",
        "half a header behind",
        "without framing, two",
        "without framing, a zero behind",
    ),
    "zstd": ("3 bytes of garbage behind", "garbage behind", "3 zeros behind", "20 zeros behind")
    + ("garbage between", "zeros between"),
}
DIFFERENCES: dict[str, tuple[str, object]] = {
    f"{codec}: {shape}, {kind}": (_EXCEPTION, ("INVALID_RECORD", []))
    for codec, damaged in _DAMAGED.items()
    for shape in damaged
    for kind in KINDS
}
