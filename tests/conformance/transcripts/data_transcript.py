"""A conversation about Produce, Fetch, ListOffsets and leader epochs that any Kafka-compatible broker can be asked to
have: each question has a name.

Owns: the questions, and which part of an answer counts (no ids of topics, sessions or nodes).
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from oncelog.protocol.generated.fetch_request import ReplicaState
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.asking import AT_MS, Asker, Broker, Told, counts, parts_of
from tests.clients.fetch_session import EVERYTHING, Key, fetch_request

TOPIC = "data"
NO_TOPIC = UUID(int=77)


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = Talk(broker)
    talk.make(TOPIC, 5)
    yield from parts_of(talk, produced, fetched, limits, sessions, waits, offsets, leader_epochs, made_anew)


class Talk(Asker):
    topic_id: UUID

    def make(self, topic: str, partitions: int) -> UUID:
        made = {"topics": [(topic, partitions, 1)], "timeout_ms": 10_000}
        self.topic_id = self.until(lambda each: not each.error_code, "CreateTopics", 7, "topics.0", **made).topic_id
        # A topic may be there before its partitions are.
        while self.produce(13, self.topic_id, 3)[0] != "NONE":
            self.broker.let_pass(100)
        return self.topic_id

    def produce(
        self, version: int, topic: str | UUID, partition: int, count: int = 1, at_ms: int = AT_MS, size: int = 10
    ) -> tuple[Any, ...]:
        key = "topic_id" if isinstance(topic, UUID) else "name"
        records = encode_batch([Record(index, at_ms + index, None, b"x" * size) for index in range(count)])
        data = {"index": partition, "records": records}
        topics = [{key: topic, "partition_data": [data]}]
        (told,) = self.ask("Produce", version, "responses", acks=-1, timeout_ms=5_000, topic_data=topics)
        shape = "error_code base_offset log_start_offset error_message"
        return *counts(told.partition_responses[0], shape), getattr(told, key) == topic

    def fetch(self, version: int, offsets: Mapping[Key, int], **fields: Any) -> Any:
        names = {topic: TOPIC for topic, _ in offsets if topic != NO_TOPIC}
        return self.fetched(version, offsets, names, **fields)

    def fetched(self, version: int, offsets: Mapping[Key, int], names: Mapping[Any, str], **fields: Any) -> Any:
        return _shown(self.response(version, offsets, **fields), names)

    def response(self, version: int, offsets: Mapping[Key, int], **fields: Any) -> Any:
        return self.broker.send(fetch_request(offsets, **fields), version).message


def _shown(response: Any, names: Mapping[Any, str]) -> Any:
    """An answer without ids: its error, whether it has a session, and each partition."""
    each = (
        "partition_index error_code (high_watermark last_stable_offset log_start_offset) "
        "aborted_transactions:count records:count diverging_epoch(epoch end_offset) current_leader.leader_epoch"
    )
    ways = {"count": lambda found: None if found is None else len(found)}
    partitions = [
        (names.get(topic.topic or topic.topic_id, "?"), *partition)
        for topic in response.responses
        for partition in counts(topic, f"partitions({each})", **ways)
    ]
    error, session_id, endpoints = counts(response, "error_code session_id node_endpoints:len")
    return error, session_id != 0, sorted(partitions), endpoints


def produced(talk: Talk) -> Told:
    for version in (3, 8, 12):
        yield f"by name, version {version}", talk.produce(version, TOPIC, 0, 3)
    yield "by id", talk.produce(13, talk.topic_id, 0, 3, at_ms=AT_MS - 1000)
    yield "by an unknown id", talk.produce(13, NO_TOPIC, 0)
    yield "by the id of nothing", talk.produce(13, UUID(int=0), 0)
    yield "by id to no partition", talk.produce(13, talk.topic_id, 99)


def fetched(talk: Talk) -> Told:
    for version in (4, 6, 7, 11, 12):
        yield f"by name, version {version}", talk.fetch(version, {(TOPIC, 0): 0}, session_epoch=-1)
        yield f"no topic, version {version}", talk.fetch(version, {("none", 0): 0}, session_epoch=-1)
    for version in (13, 16, 17, 18):
        yield f"by id, version {version}", talk.fetch(version, {(talk.topic_id, 0): 4}, session_epoch=-1)
        yield f"no id, version {version}", talk.fetch(version, {(NO_TOPIC, 0): 0}, session_epoch=-1)
    for level in (0, 1):
        for offset in (0, 11, 12, 13, -1):
            answer = talk.fetch(13, {(talk.topic_id, 0): offset}, isolation_level=level, session_epoch=-1)
            yield f"from {offset}, isolation {level}", answer
    yield "no partition", talk.fetch(13, {(talk.topic_id, 99): 0}, session_epoch=-1)
    for version in (12, 16):
        topic = talk.topic_id if version > 12 else TOPIC
        for epoch in (-5, 0, 1):
            answer = talk.fetch(version, {(topic, 0): 11}, leader_epoch=epoch, session_epoch=-1)
            yield f"leader epoch {epoch}, version {version}", answer
    for epoch, offset in ((0, 11), (0, 13), (1, 11), (-1, 11)):
        partition = {"partition": 0, "fetch_offset": offset, "last_fetched_epoch": epoch}
        topics = [{"topic_id": talk.topic_id, "partitions": [{**partition, "partition_max_bytes": EVERYTHING}]}]
        answer = talk.ask("Fetch", 13, max_wait_ms=0, min_bytes=1, topics=topics)
        yield f"last fetched epoch {epoch}, from {offset}", _shown(answer, {talk.topic_id: TOPIC})
    for replica_id in (-2, -3, 1, 7):
        state = ReplicaState(replica_id=replica_id)
        for epoch in (-1, 0):
            answer = talk.fetch(16, {(talk.topic_id, 0): 11}, replica_state=state, leader_epoch=epoch, session_epoch=-1)
            yield f"as replica {replica_id}, leader epoch {epoch}", answer


def limits(talk: Talk) -> Told:
    for index in (1, 2):
        for _ in range(3):
            talk.produce(13, talk.topic_id, index, size=1_000)
    both: dict[Key, int] = {(talk.topic_id, 1): 0, (talk.topic_id, 2): 0}
    for max_bytes in (0, 1, 1_000, 1_500, 5_000):
        yield f"at most {max_bytes} bytes", talk.fetch(13, both, max_bytes=max_bytes, session_epoch=-1)
        answer = talk.fetch(13, both, partition_max_bytes=max_bytes, session_epoch=-1)
        yield f"at most {max_bytes} bytes of each", answer


def sessions(talk: Talk) -> Told:
    names = {talk.topic_id: TOPIC, NO_TOPIC: "none"}
    whole: dict[Key, int] = {(talk.topic_id, 0): 12, (talk.topic_id, 1): 3, (NO_TOPIC, 0): 0, (talk.topic_id, 99): 0}
    first = talk.response(13, whole, session_epoch=0)
    yield "the first answer has everything", _shown(first, names)
    session_id = first.session_id
    epoch = 0

    def again(offsets: Mapping[Key, int] | None = None, **fields: Any) -> Any:
        nonlocal epoch
        epoch += 1
        return talk.fetched(13, offsets or {}, names, session_id=session_id, session_epoch=epoch, **fields)

    yield "then errors alone", again()
    talk.produce(13, talk.topic_id, 1)
    yield "records", again()
    yield "records again", again()
    yield "after reading on", again({(talk.topic_id, 1): 4})
    yield "a partition more", again({(talk.topic_id, 2): 3})
    yield "a partition out of range", again({(talk.topic_id, 2): 300})
    yield "still out of range", again()
    yield "in range again", again({(talk.topic_id, 2): 3})
    yield "forgotten", again(forgotten=[(NO_TOPIC, 0), (talk.topic_id, 99), (talk.topic_id, 2)])
    yield "nothing left to tell", again()
    yield "forgotten and asked for at once", again({(talk.topic_id, 2): 0}, forgotten=[(talk.topic_id, 2)])
    for name, fields in (
        ("an epoch too early", {"session_id": session_id, "session_epoch": 1}),
        ("an epoch too late", {"session_id": session_id, "session_epoch": epoch + 2}),
        ("an unknown session", {"session_id": session_id ^ 1, "session_epoch": 1}),
        ("no session, but an epoch", {"session_id": 0, "session_epoch": 1}),
    ):
        yield name, talk.fetched(13, {}, names, **fields)
    mixed = talk.fetched(12, {}, names, session_id=session_id, session_epoch=epoch + 1)
    yield "names in a session of ids", mixed
    yield "still there", again()
    yield "everything forgotten", again(forgotten=[(talk.topic_id, 0), (talk.topic_id, 1)])
    yield "gone with its last partition", again()
    empty = talk.response(13, {}, session_epoch=0)
    yield "a session of nothing", _shown(empty, names)
    last = {"session_id": empty.session_id, "session_epoch": -1}
    yield "ended by the client", talk.fetched(13, {(talk.topic_id, 0): 12}, names, **last)


def waits(talk: Talk) -> Told:
    """Fetches that wait for data, and fetches that do not."""
    for name, offsets, fields in (
        ("at the end", {(talk.topic_id, 0): 12}, {}),
        ("for no byte at all", {(talk.topic_id, 0): 12}, {"min_bytes": 0}),
        ("an unknown id alone", {(NO_TOPIC, 0): 0}, {}),
        ("an unknown id beside one at the end", {(NO_TOPIC, 0): 0, (talk.topic_id, 0): 12}, {}),
        ("no partition beside one at the end", {(talk.topic_id, 99): 0, (talk.topic_id, 0): 12}, {}),
        ("out of range beside one at the end", {(talk.topic_id, 1): 400, (talk.topic_id, 0): 12}, {}),
        ("nothing asked for", {}, {}),
        ("for more than there is", {(talk.topic_id, 1): 0}, {"min_bytes": 1_000_000}),
        ("for more than may come", {(talk.topic_id, 1): 0}, {"min_bytes": 1_000_000, "max_bytes": 2_000}),
        ("for more than may come of one", {(talk.topic_id, 1): 0}, {"min_bytes": 2_000, "partition_max_bytes": 1_500}),
    ):
        reply = talk.broker.send(fetch_request(offsets, max_wait_ms=1_000, session_epoch=-1, **fields), 13)
        yield name, "answered" if reply.is_there else "waits"
        if not reply.is_there:
            talk.broker.let_pass(1_100)
        yield f"{name}: the answer", _shown(reply.message, {talk.topic_id: TOPIC})


def offsets(talk: Talk) -> Told:
    def listed(version: int, timestamp: int, topic: str = TOPIC, partition: int = 0, **fields: Any) -> Any:
        epoch = fields.pop("leader_epoch", -1)
        asked = (partition, epoch if version >= 4 else -1, timestamp)
        topics = [(topic, [asked] * fields.pop("repeats", 1))]
        shape = "topics/partitions(error_code offset timestamp leader_epoch)"
        return talk.ask("ListOffsets", version, shape, **{"replica_id": -1, "topics": topics, **fields})

    for version in range(1, 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7):
            yield f"of {timestamp}, version {version}", listed(version, timestamp)
    for timestamp in (0, AT_MS - 1000, AT_MS + 1, AT_MS + 2, AT_MS + 3):
        yield f"at {timestamp}", listed(7, timestamp)
    for level in (0, 1):
        yield f"latest, isolation {level}", listed(7, -1, isolation_level=level)
    for replica_id in (-2, 1, 7):
        yield f"latest for replica {replica_id}", listed(7, -1, replica_id=replica_id)
    for epoch in (-5, 0, 1):
        yield f"latest, leader epoch {epoch}", listed(7, -1, leader_epoch=epoch)
    yield "of an empty partition", [listed(7, timestamp, partition=4) for timestamp in (-1, -2, -3, 0)]
    yield "of no topic", listed(7, -1, topic="none")
    yield "of no topic, by a sentinel that is too new", listed(7, -5, topic="none")
    yield "of no partition", listed(7, -1, partition=99)
    yield "twice at once", listed(7, -1, repeats=2)
    yield "with a timeout", listed(11, -1, timeout_ms=1)


def leader_epochs(talk: Talk) -> Told:
    for version in (2, 3, 4):
        for current, epoch in ((-1, 0), (0, 0), (-1, 1), (-1, -1), (-1, -2), (1, 0), (-5, 0)):
            asked, nothing = (0, current, epoch), (99, current, epoch)
            topics = [(TOPIC, [asked, nothing]), ("none", [asked])]
            shape = "topics/partitions{topic partition error_code leader_epoch end_offset}"
            answer = talk.ask("OffsetForLeaderEpoch", version, shape, topics=topics)
            yield f"the end of epoch {epoch} in epoch {current}, version {version}", answer


def made_anew(talk: Talk) -> Told:
    """A session by id and one by name, on a topic that is deleted and created again."""
    old_id = talk.make("again", 4)
    names: dict[Any, str] = {old_id: "old", "again": "by name"}
    readers = []
    for version, key in ((13, old_id), (12, "again")):
        first = talk.response(version, {(key, 0): 0, (key, 3): 1}, session_epoch=0)
        yield f"at first, version {version}", _shown(first, names)
        readers.append((version, first.session_id))
    talk.ask("DeleteTopics", 6, topics=[{"name": "again"}], timeout_ms=5_000)
    talk.broker.let_pass(1_000)
    for version, session_id in readers:
        answer = talk.fetched(version, {}, names, session_id=session_id, session_epoch=1)
        yield f"gone, version {version}", answer
    new_id = talk.make("again", 4)
    names[new_id] = "new"
    for version, session_id in readers:
        answer = talk.fetched(version, {}, names, session_id=session_id, session_epoch=2)
        yield f"there again, version {version}", answer
    both: dict[Key, int] = {(old_id, 0): 0, (new_id, 0): 0}
    yield "without a session", talk.fetched(13, both, names, session_epoch=-1)


_WHOLE = "Kafka fills the limit with a part of one more batch, which clients drop; we return whole batches"


def _read(*partitions: tuple[int, int, int]) -> object:
    """A Fetch's expected answer, from (partition, high watermark, bytes) of each partition."""
    each = [("data", index, "NONE", (end, end, 0), None, size, (-1, -1), -1) for index, end, size in partitions]
    return ("NONE", False, each, 0)


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "produced: by id to no partition": (
        "Kafka leaves the message to the client's table of errors, we say which partition there is not",
        ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1, f"there is no partition {TOPIC}-99", True),
    ),
    "limits: at most 1500 bytes": (_WHOLE, _read((1, 3, 1070), (2, 3, 0))),
    "limits: at most 1500 bytes of each": (_WHOLE, _read((1, 3, 1070), (2, 3, 1070))),
    "limits: at most 5000 bytes": (_WHOLE, _read((1, 3, 3210), (2, 3, 1070))),
    "waits: for more than may come: the answer": (_WHOLE, _read((1, 4, 1070))),
    "waits: for more than may come of one: the answer": (_WHOLE, _read((1, 4, 1070))),
}
