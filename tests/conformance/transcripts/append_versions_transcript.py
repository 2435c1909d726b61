"""A conversation that crosses the rules of appending: each state of a partition × kind of batch × version of Produce.

Owns: the kinds of batches, what may be wrong with one, the states that the table of batches lacks, and how the answers
to eleven versions become one line. Every question has a producer of its own, all in one partition. Does not own: the
table (`tests.support.logs.append_tables`), and how its states are brought about (`partition_transcript`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from struct import pack_into
from typing import Any
from uuid import UUID

from crc32c import crc32c

from tests.clients.asking import NO_ID, Broker, batch, one_partition
from tests.clients.conversation import IMPLICIT, PLAIN, VERIFIED, Conversation
from tests.conformance.transcripts.partition_transcript import EPOCH, STATES, TOPIC, Place, must
from tests.conformance.transcripts.transaction_transcript import prepare
from tests.support.logs.append_tables import BATCHES, rows

VERSIONS = range(3, 14)
_TOPIC_IDS_SINCE = 13
_MADE_AGAIN = "made again"


@dataclass(frozen=True, slots=True)
class Kind:
    has_producer: bool = True
    is_transactional: bool = False
    names_an_id: bool = False
    """Whether the request has a transactional id."""
    is_added: bool = False
    """Whether the partition is in the transaction; from version 12 on the request adds it."""


KINDS = {
    "plain": Kind(has_producer=False),
    "plain, beside a transactional id": Kind(has_producer=False, names_an_id=True),
    "idempotent": Kind(),
    "idempotent, beside a transactional id": Kind(names_an_id=True),
    "transactional": Kind(is_transactional=True, names_an_id=True, is_added=True),
    "transactional, not added": Kind(is_transactional=True, names_an_id=True),
    "transactional, without a transactional id": Kind(is_transactional=True),
}

# --- states beside those of the table ---------------------------------------------------------------------------------


def _deleted(place: Place) -> None:
    """Six batches as in `plain`, whose records are deleted: the producer is remembered."""
    STATES["plain"](place)
    topics = one_partition(TOPIC, place.partition, offset=-1)
    shape = "topics.0.partitions.0.error_code"
    must(place.talk.ask("DeleteRecords", 2, shape, topics=topics, timeout_ms=10_000), "NONE")


def _turned_away_by_v11(place: Place) -> None:
    """The batch at 7 was turned away, since the partition is not in the transaction."""
    must(place.write(7, version=VERIFIED), "TRANSACTION_ABORTABLE")


def _turned_away_by_v12(place: Place) -> None:
    """The partition was added, and the batch at 7 turned away, since a transaction begins with 0."""
    must(place.write(7, version=IMPLICIT), "OUT_OF_ORDER_SEQUENCE_NUMBER")


MORE_STATES: dict[str, Callable[[Place], None]] = {
    "deleted": _deleted,
    "turned away by v11": _turned_away_by_v11,
    "turned away by v12": _turned_away_by_v12,
    _MADE_AGAIN: STATES["plain"],
}
# state            | epoch | sequence, as in the table
MORE_BATCHES = """
deleted            | 3     | 6
deleted            | 3     | 5
deleted            | 3     | 9
turned away by v11 | 3     | 0
turned away by v11 | 3     | 7
turned away by v11 | 3     | 8
turned away by v12 | 3     | 0
turned away by v12 | 3     | 7
turned away by v12 | 3     | 8
made again         | 3     | 0
made again         | 3     | 6
"""

# --- what may be wrong with a batch -----------------------------------------------------------------------------------


def _patched(at: int, layout: str, value: int) -> Callable[[bytearray], None]:
    return lambda batch: pack_into(layout, batch, at, value)


def _control(batch: bytearray) -> None:
    batch[22] |= 0x20


def _is_cut(batch: bytearray) -> None:
    del batch[40:]


FLAWS: dict[str, Callable[[bytearray], None]] = {
    "no flaw": lambda batch: None,
    "magic 1": _patched(16, ">b", 1),
    "a control batch": _control,
    "five announced, one there": _patched(57, ">i", 5),
    "last offset delta 9": _patched(23, ">i", 9),
    "sequence -1": _patched(53, ">i", -1),
    "epoch -1": _patched(51, ">h", -1),
    "producer id -1": _patched(43, ">q", -1),
    "half a batch": _is_cut,
    "two batches": lambda batch: batch.extend(batch),
    "zstd": lambda batch: None,
    "a flipped checksum": lambda batch: None,
}


def _encoded(
    talk: Conversation, kind: Kind, place: Place, at: tuple[int, int], count: int, compression: str = "none"
) -> bytes:
    identity: dict[str, Any] = {}
    if kind.has_producer:
        producer_epoch, base_sequence = at
        producer_id = place.producer.producer_id
        identity = {"producer_id": producer_id, "producer_epoch": producer_epoch, "base_sequence": base_sequence}
    return batch(count, talk.wall_ms, **identity, transactional=kind.is_transactional, compression=compression)


def _flawed(talk: Conversation, kind: Kind, place: Place, flaw: str) -> bytes:
    data = bytearray(_encoded(talk, kind, place, (EPOCH, 0), 1, "zstd" if flaw == "zstd" else "none"))
    FLAWS[flaw](data)
    pack_into(">I", data, 17, crc32c(bytes(data[21:])) ^ (flaw == "a flipped checksum"))
    return bytes(data)


# --- the questions ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Topic:
    talk: Conversation
    topic_id: UUID = NO_ID

    def make(self) -> None:
        topics = [(TOPIC, 1, 1)]
        while (made := self.talk.ask("CreateTopics", 7, topics=topics, timeout_ms=10_000).topics[0]).error_code:
            self.talk.broker.let_pass(100)
        self.topic_id = made.topic_id
        # A topic may be there before its partitions are.
        while self.talk.produce(None, topic=TOPIC, version=PLAIN)[0] != "NONE":
            self.talk.broker.let_pass(100)

    def make_again(self) -> None:
        gone = {"topic_names": [TOPIC], "timeout_ms": 10_000}
        must(self.talk.ask("DeleteTopics", 5, "responses.0.error_code", **gone), "NONE")
        self.make()


def conversation(broker: Broker, wall_ms: int) -> Iterator[tuple[str, str]]:
    """Every question and its answer; `broker` must be fresh."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    topic = _Topic(talk)
    topic.make()
    # The others are judged by the request alone: the flaws have them.
    with_producer = {
        kind: each for kind, each in KINDS.items() if each.has_producer and each.names_an_id >= each.is_transactional
    }
    for state, epoch, sequences, *_ in (*rows(BATCHES), *rows(MORE_BATCHES)):
        count, _, first = sequences.rpartition(" of ")
        places = {key: _place(talk, key, f"{state} {epoch} {sequences}", state) for key in _keys(with_producer)}
        if state == _MADE_AGAIN:
            topic.make_again()
        for kind, each in with_producer.items():
            at = int(epoch), int(first)
            batches = [
                (version, places[kind, version], _encoded(talk, each, places[kind, version], at, int(count or 1)))
                for version in VERSIONS
            ]
            yield f"{state}, epoch {epoch}, sequence {sequences}: {kind}", _asked(topic, each, batches)
    for flaw in FLAWS:
        for kind, each in KINDS.items():
            batches = [
                (version, place, _flawed(talk, each, place, flaw))
                for version in VERSIONS
                for place in (_place(talk, (kind, version), flaw, "nothing"),)
            ]
            yield f"{flaw}: {kind}", _asked(topic, each, batches)


def _keys(kinds: dict[str, Kind]) -> list[tuple[str, int]]:
    return [(kind, version) for kind in kinds for version in VERSIONS]


def _place(talk: Conversation, key: tuple[str, int], question: str, state: str) -> Place:
    """A producer whose epoch is that of the state: `bumped` begins at the one before."""
    transactional_id = f"{question} {key}"
    for _ in range(EPOCH if state == "bumped" else EPOCH + 1):
        producer = talk.started(transactional_id)
    place = Place(talk, 0, producer)
    (STATES | MORE_STATES)[state](place)
    return place


def _asked(topic: _Topic, kind: Kind, batches: list[tuple[int, Place, bytes]]) -> str:
    """The answers by version, such as "3-10 INVALID_TXN_STATE, 11-13 TRANSACTION_ABORTABLE"."""
    answers = [(version, _answer(topic, kind, place, data, version)) for version, place, data in batches]
    lines = []
    for answer, alike in groupby(answers, lambda each: each[1]):
        versions = [version for version, _ in alike]
        span = str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"
        lines.append(f"{span} {answer}")
    return ", ".join(lines)


def _answer(topic: _Topic, kind: Kind, place: Place, data: bytes, version: int) -> str:
    if kind.is_added and version < IMPLICIT:
        place.producer.add(0, topic=TOPIC)
    end = place.end
    identity = {"topic_id": topic.topic_id} if version >= _TOPIC_IDS_SINCE else {"name": TOPIC}
    topics = [{**identity, "partition_data": [{"index": 0, "records": data}]}]
    transactional_id = place.producer.transactional_id if kind.names_an_id else None
    error, base_offset = place.talk.produce_data(topics, version, transactional_id)
    if error != "NONE":
        return error
    return "written" if base_offset >= end else "duplicate"


# Where we answer otherwise on purpose, and why.
_NO_EPOCH = (
    "Kafka takes a producer id with the epoch -1, which no producer is given; we refuse it with the code that fits"
)
_NO_PRODUCER = (
    "Kafka writes a transactional batch without a producer id, though it belongs to no transaction; we refuse it"
)
DIFFERENCES: dict[str, tuple[str, object]] = {
    "epoch -1: idempotent": (_NO_EPOCH, "3-13 INVALID_RECORD"),
    "epoch -1: idempotent, beside a transactional id": (_NO_EPOCH, "3-13 INVALID_RECORD"),
    "producer id -1: transactional": (_NO_PRODUCER, "3-13 INVALID_PRODUCER_ID_MAPPING"),
    "producer id -1: transactional, not added": (_NO_PRODUCER, "3-13 INVALID_PRODUCER_ID_MAPPING"),
}
