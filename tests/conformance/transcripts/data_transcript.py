"""A conversation about Produce, Fetch, ListOffsets and leader epochs that any Kafka-compatible broker can be asked to
have: each question has a name.

Owns: the questions, and which part of an answer counts (no ids of topics, sessions or nodes).
"""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.fetch_session import EVERYTHING, Key, fetch_request
from tests.clients.group_members import Broker

Told = Iterator[tuple[str, Any]]

TOPIC = "data"
NO_TOPIC = UUID(int=77)
FIRST_MS = 1_700_000_000_000


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    topic_id = _create(broker, TOPIC, 5)
    for part in (produced, fetched, limits, sessions, waits, offsets, leader_epochs, made_anew):
        for name, answer in part(broker, topic_id):
            yield f"{part.__name__}: {name}", answer


def _create(broker: Broker, name: str, partitions: int) -> UUID:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    while True:
        (answer,) = broker.ask(request, 7).topics
        if answer.error_code == ErrorCode.NONE:
            break
        broker.let_pass(100)
    topic_id: UUID = answer.topic_id
    # A topic may be there before its partitions are.
    while _produce(broker, 13, topic_id, 3)[0] != "NONE":
        broker.let_pass(100)
    return topic_id


def _batch(count: int, at_ms: int = FIRST_MS, size: int = 10) -> memoryview:
    return memoryview(encode_batch([Record(index, at_ms + index, None, b"x" * size) for index in range(count)]))


def _produce(
    broker: Broker, version: int, topic: str | UUID, partition: int, count: int = 1, **options: Any
) -> tuple[Any, ...]:
    data = PartitionProduceData(index=partition, records=_batch(count, **options))
    if isinstance(topic, UUID):
        asked = TopicProduceData(topic_id=topic, partition_data=[data])
    else:
        asked = TopicProduceData(name=topic, partition_data=[data])
    answer = broker.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[asked]), version)
    (told,) = answer.responses
    (of,) = told.partition_responses
    echoed = told.topic_id == topic if isinstance(topic, UUID) else told.name == topic
    return ErrorCode(of.error_code).name, of.base_offset, of.log_start_offset, of.error_message, echoed


def _code(value: int) -> str:
    return ErrorCode(value).name


def _shown(response: Any, names: Mapping[Any, str]) -> Any:
    """An answer without ids: its error, whether it has a session, and each partition."""
    partitions = []
    for topic in response.responses:
        for data in topic.partitions:
            aborted = data.aborted_transactions
            partitions.append(
                (
                    names.get(topic.topic or topic.topic_id, "?"),
                    data.partition_index,
                    _code(data.error_code),
                    (data.high_watermark, data.last_stable_offset, data.log_start_offset),
                    None if aborted is None else len(aborted),
                    len(data.records) if data.records is not None else None,
                    (data.diverging_epoch.epoch, data.diverging_epoch.end_offset),
                    data.current_leader.leader_epoch,
                )
            )
    return _code(response.error_code), response.session_id != 0, sorted(partitions), len(response.node_endpoints)


def _fetch(broker: Broker, version: int, offsets: Mapping[Key, int], **fields: Any) -> Any:
    names = {topic: TOPIC for topic, _ in offsets if topic != NO_TOPIC}
    return _shown(broker.ask(fetch_request(offsets, **fields), version), names)


def produced(broker: Broker, topic_id: UUID) -> Told:
    for version in (3, 8, 12):
        yield f"by name, version {version}", _produce(broker, version, TOPIC, 0, 3)
    yield "by id", _produce(broker, 13, topic_id, 0, 3, at_ms=FIRST_MS - 1000)
    yield "by an unknown id", _produce(broker, 13, NO_TOPIC, 0)
    yield "by the id of nothing", _produce(broker, 13, UUID(int=0), 0)
    yield "by id to no partition", _produce(broker, 13, topic_id, 99)


def fetched(broker: Broker, topic_id: UUID) -> Told:
    for version in (4, 6, 7, 11, 12):
        yield f"by name, version {version}", _fetch(broker, version, {(TOPIC, 0): 0}, session_epoch=-1)
        yield f"no topic, version {version}", _fetch(broker, version, {("none", 0): 0}, session_epoch=-1)
    for version in (13, 16, 17, 18):
        yield f"by id, version {version}", _fetch(broker, version, {(topic_id, 0): 4}, session_epoch=-1)
        yield f"no id, version {version}", _fetch(broker, version, {(NO_TOPIC, 0): 0}, session_epoch=-1)
    for level in (0, 1):
        for offset in (0, 11, 12, 13, -1):
            answer = _fetch(broker, 13, {(topic_id, 0): offset}, isolation_level=level, session_epoch=-1)
            yield f"from {offset}, isolation {level}", answer
    yield "no partition", _fetch(broker, 13, {(topic_id, 99): 0}, session_epoch=-1)
    for version in (12, 16):
        topic = topic_id if version > 12 else TOPIC
        for epoch in (-5, 0, 1):
            answer = _fetch(broker, version, {(topic, 0): 11}, leader_epoch=epoch, session_epoch=-1)
            yield f"leader epoch {epoch}, version {version}", answer
    for epoch, offset in ((0, 11), (0, 13), (1, 11), (-1, 11)):
        partition = FetchPartition(
            partition=0, fetch_offset=offset, last_fetched_epoch=epoch, partition_max_bytes=EVERYTHING
        )
        topics = [FetchTopic(topic_id=topic_id, partitions=[partition])]
        answer = broker.ask(FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics), 13)
        yield f"last fetched epoch {epoch}, from {offset}", _shown(answer, {topic_id: TOPIC})
    for replica_id in (-2, -3, 1, 7):
        state = ReplicaState(replica_id=replica_id)
        for epoch in (-1, 0):
            answer = _fetch(broker, 16, {(topic_id, 0): 11}, replica_state=state, leader_epoch=epoch, session_epoch=-1)
            yield f"as replica {replica_id}, leader epoch {epoch}", answer


def limits(broker: Broker, topic_id: UUID) -> Told:
    for index in (1, 2):
        for _ in range(3):
            _produce(broker, 13, topic_id, index, size=1_000)
    both: dict[Key, int] = {(topic_id, 1): 0, (topic_id, 2): 0}
    for max_bytes in (0, 1, 1_000, 1_500, 5_000):
        yield f"at most {max_bytes} bytes", _fetch(broker, 13, both, max_bytes=max_bytes, session_epoch=-1)
        answer = _fetch(broker, 13, both, partition_max_bytes=max_bytes, session_epoch=-1)
        yield f"at most {max_bytes} bytes of each", answer


def sessions(broker: Broker, topic_id: UUID) -> Told:
    names = {topic_id: TOPIC, NO_TOPIC: "none"}
    whole: dict[Key, int] = {(topic_id, 0): 12, (topic_id, 1): 3, (NO_TOPIC, 0): 0, (topic_id, 99): 0}
    first = broker.ask(fetch_request(whole, session_epoch=0), 13)
    yield "the first answer has everything", _shown(first, names)
    session_id = first.session_id
    epoch = 0

    def again(offsets: Mapping[Key, int] | None = None, **fields: Any) -> Any:
        nonlocal epoch
        epoch += 1
        request = fetch_request(offsets or {}, session_id=session_id, session_epoch=epoch, **fields)
        return _shown(broker.ask(request, 13), names)

    yield "then errors alone", again()
    _produce(broker, 13, topic_id, 1)
    yield "records", again()
    yield "records again", again()
    yield "after reading on", again({(topic_id, 1): 4})
    yield "a partition more", again({(topic_id, 2): 3})
    yield "a partition out of range", again({(topic_id, 2): 300})
    yield "still out of range", again()
    yield "in range again", again({(topic_id, 2): 3})
    yield "forgotten", again(forgotten=[(NO_TOPIC, 0), (topic_id, 99), (topic_id, 2)])
    yield "nothing left to tell", again()
    yield "forgotten and asked for at once", again({(topic_id, 2): 0}, forgotten=[(topic_id, 2)])
    for name, fields in (
        ("an epoch too early", {"session_id": session_id, "session_epoch": 1}),
        ("an epoch too late", {"session_id": session_id, "session_epoch": epoch + 2}),
        ("an unknown session", {"session_id": session_id ^ 1, "session_epoch": 1}),
        ("no session, but an epoch", {"session_id": 0, "session_epoch": 1}),
    ):
        yield name, _shown(broker.ask(fetch_request({}, **fields), 13), names)
    mixed = fetch_request({}, session_id=session_id, session_epoch=epoch + 1)
    yield "names in a session of ids", _shown(broker.ask(mixed, 12), names)
    yield "still there", again()
    yield "everything forgotten", again(forgotten=[(topic_id, 0), (topic_id, 1)])
    yield "gone with its last partition", again()
    empty = broker.ask(fetch_request({}, session_epoch=0), 13)
    yield "a session of nothing", _shown(empty, names)
    last = fetch_request({(topic_id, 0): 12}, session_id=empty.session_id, session_epoch=-1)
    yield "ended by the client", _shown(broker.ask(last, 13), names)


def waits(broker: Broker, topic_id: UUID) -> Told:
    """Fetches that wait for data, and fetches that do not."""
    for name, offsets, fields in (
        ("at the end", {(topic_id, 0): 12}, {}),
        ("for no byte at all", {(topic_id, 0): 12}, {"min_bytes": 0}),
        ("an unknown id alone", {(NO_TOPIC, 0): 0}, {}),
        ("an unknown id beside one at the end", {(NO_TOPIC, 0): 0, (topic_id, 0): 12}, {}),
        ("no partition beside one at the end", {(topic_id, 99): 0, (topic_id, 0): 12}, {}),
        ("out of range beside one at the end", {(topic_id, 1): 400, (topic_id, 0): 12}, {}),
        ("nothing asked for", {}, {}),
        ("for more than there is", {(topic_id, 1): 0}, {"min_bytes": 1_000_000}),
        ("for more than may come", {(topic_id, 1): 0}, {"min_bytes": 1_000_000, "max_bytes": 2_000}),
        ("for more than may come of one", {(topic_id, 1): 0}, {"min_bytes": 2_000, "partition_max_bytes": 1_500}),
    ):
        reply = broker.send(fetch_request(offsets, max_wait_ms=1_000, session_epoch=-1, **fields), 13)
        yield name, "answered" if reply.is_there else "waits"
        if not reply.is_there:
            broker.let_pass(1_100)
        yield f"{name}: the answer", _shown(reply.message, {topic_id: TOPIC})


def offsets(broker: Broker, topic_id: UUID) -> Told:
    def listed(version: int, timestamp: int, topic: str = TOPIC, partition: int = 0, **fields: Any) -> Any:
        epoch = fields.pop("leader_epoch", -1)
        asked = ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=epoch if version >= 4 else -1, timestamp=timestamp
        )
        repeats = fields.pop("repeats", 1)
        topics = [ListOffsetsTopic(name=topic, partitions=[asked] * repeats)]
        request = ListOffsetsRequest(**{"replica_id": -1, "topics": topics, **fields})
        (answer,) = broker.ask(request, version).topics
        return [(_code(of.error_code), of.offset, of.timestamp, of.leader_epoch) for of in answer.partitions]

    for version in range(1, 12):
        for timestamp in (-1, -2, -3, -4, -5, -6, -7):
            yield f"of {timestamp}, version {version}", listed(version, timestamp)
    for timestamp in (0, FIRST_MS - 1000, FIRST_MS + 1, FIRST_MS + 2, FIRST_MS + 3):
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


def leader_epochs(broker: Broker, topic_id: UUID) -> Told:
    for version in (2, 3, 4):
        for current, epoch in ((-1, 0), (0, 0), (-1, 1), (-1, -1), (-1, -2), (1, 0), (-5, 0)):
            asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
            nothing = OffsetForLeaderPartition(partition=99, current_leader_epoch=current, leader_epoch=epoch)
            topics = [
                OffsetForLeaderTopic(topic=TOPIC, partitions=[asked, nothing]),
                OffsetForLeaderTopic(topic="none", partitions=[asked]),
            ]
            answer = broker.ask(OffsetForLeaderEpochRequest(topics=topics), version)
            yield (
                f"the end of epoch {epoch} in epoch {current}, version {version}",
                sorted(
                    (topic.topic, of.partition, _code(of.error_code), of.leader_epoch, of.end_offset)
                    for topic in answer.topics
                    for of in topic.partitions
                ),
            )


def made_anew(broker: Broker, topic_id: UUID) -> Told:
    """A session by id and one by name, on a topic that is deleted and created again."""
    old_id = _create(broker, "again", 4)
    names: dict[Any, str] = {old_id: "old", "again": "by name"}
    readers = []
    for version, key in ((13, old_id), (12, "again")):
        first = broker.ask(fetch_request({(key, 0): 0, (key, 3): 1}, session_epoch=0), version)
        yield f"at first, version {version}", _shown(first, names)
        readers.append((version, first.session_id))
    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=5_000), 6)
    broker.let_pass(1_000)
    for version, session_id in readers:
        request = fetch_request({}, session_id=session_id, session_epoch=1)
        yield f"gone, version {version}", _shown(broker.ask(request, version), names)
    new_id = _create(broker, "again", 4)
    names[new_id] = "new"
    for version, session_id in readers:
        request = fetch_request({}, session_id=session_id, session_epoch=2)
        yield f"there again, version {version}", _shown(broker.ask(request, version), names)
    request = fetch_request({(old_id, 0): 0, (new_id, 0): 0}, session_epoch=-1)
    yield "without a session", _shown(broker.ask(request, 13), names)


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
