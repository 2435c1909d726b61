"""What is left of a group when nothing of it is left, until the next clean-up and after it, as any Kafka-compatible
broker can be asked.

Owns: how groups end, and every way to look at one. The broker must be fresh and have the settings below; it takes a
minute of its time. Does not own: what expires (`group_endings_transcript`).
"""

from collections.abc import Callable, Iterator
from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_members import TOPIC, Broker, Member, commit
from tests.clients.offset_producer import Producer
from tests.conformance.transcripts.group_endings_transcript import READS_TOPIC

_INTERVAL_MS = 30_000
SETTINGS = (f"offsets.retention.check.interval.ms={_INTERVAL_MS}",)
GONE = "gone"
_SESSION_MS = 6_000
_SOON_MS = 500

Told = Iterator[tuple[str, Any]]


def _name(code: int) -> str:
    return ErrorCode(code).name


# --- the ends ---------------------------------------------------------------------------------------------------------


def _forget(broker: Broker, group_id: str, topic: str = TOPIC) -> None:
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topics = [OffsetDeleteRequestTopic(name=topic, partitions=[partition])]
    answer = broker.ask(OffsetDeleteRequest(group_id=group_id, topics=topics), 0)
    assert not answer.error_code and not answer.topics[0].partitions[0].error_code, answer


def _delete(broker: Broker, group_id: str) -> None:
    assert not broker.ask(DeleteGroupsRequest(groups_names=[group_id]), 2).results[0].error_code


def _member(broker: Broker, group_id: str, **settings: Any) -> Member:
    settings = {"protocols": READS_TOPIC, **settings}
    member = Member(broker, group_id=group_id, session_timeout_ms=_SESSION_MS, **settings)
    member.member_id = member.send_join().message.member_id
    return member


def _stable(broker: Broker, group_id: str) -> Member:
    member = _member(broker, group_id)
    member.send_join()
    member.learn()
    assert not member.sync({member.member_id: b""}).message.error_code
    return member


def _its_offset_is_deleted(broker: Broker, group_id: str) -> None:
    commit(broker, 1, group_id=group_id)
    _forget(broker, group_id)


def _its_offset_is_deleted_and_another_stays(broker: Broker, group_id: str) -> None:
    commit(broker, 1, 1, group_id=group_id)
    _its_offset_is_deleted(broker, group_id)


def _its_topic_is_deleted(broker: Broker, group_id: str) -> None:
    commit(broker, 1, topic=GONE, group_id=group_id)


def _it_is_deleted(broker: Broker, group_id: str) -> None:
    commit(broker, 1, group_id=group_id)
    _delete(broker, group_id)


def _it_is_deleted_when_its_offset_is(broker: Broker, group_id: str) -> None:
    _its_offset_is_deleted(broker, group_id)
    _delete(broker, group_id)


def _its_offset_was_to_be_kept_for_a_moment(broker: Broker, group_id: str) -> None:
    commit(broker, 1, group_id=group_id, version=4, retention_time_ms=1)


def _its_commit_is_refused_for_its_metadata(broker: Broker, group_id: str) -> None:
    commit(broker, 1, group_id=group_id, metadata="x" * 5_000)


def _its_commit_is_of_no_topic(broker: Broker, group_id: str) -> None:
    commit(broker, 1, topic="nowhere", group_id=group_id)


def _its_offsets_are_fetched(broker: Broker, group_id: str) -> None:
    broker.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)]), 8)


def _its_transaction_is_aborted(broker: Broker, group_id: str) -> None:
    producer = Producer(broker, group_id).init()
    producer.commit_offset(1, group_id=group_id)
    producer.end(committed=False)


def _its_transaction_is_open_when_its_offset_is_deleted(broker: Broker, group_id: str) -> None:
    producer = Producer(broker, group_id).init()
    producer.commit_offset(1, group_id=group_id)
    _forget(broker, group_id)


def _its_transaction_is_open_when_its_topic_is_deleted(broker: Broker, group_id: str) -> None:
    producer = Producer(broker, group_id).init()
    assert not producer.add_offsets(group_id)
    assert not producer.send_commit(1, topic=GONE, group_id=group_id)


def _its_member_leaves(broker: Broker, group_id: str) -> None:
    _stable(broker, group_id).leave()


def _its_member_leaves_and_its_offset_is_deleted(broker: Broker, group_id: str) -> None:
    member = _stable(broker, group_id)
    member.commit(1)
    member.leave()
    _forget(broker, group_id)


def _its_member_is_silent(broker: Broker, group_id: str) -> None:
    _stable(broker, group_id)


def _its_member_never_joins(broker: Broker, group_id: str) -> None:
    """The member has an id, and does not join with it."""
    assert _member(broker, group_id).member_id


def _its_member_leaves_before_it_joins(broker: Broker, group_id: str) -> None:
    _member(broker, group_id).leave()


def _its_join_is_refused_for_its_session_timeout(broker: Broker, group_id: str) -> None:
    assert Member(broker, group_id=group_id, session_timeout_ms=1).send_join().message.error_code


def _its_join_is_refused_for_its_member_id(broker: Broker, group_id: str) -> None:
    assert Member(broker, group_id=group_id, member_id="stranger").send_join().message.error_code


def _its_join_is_refused_for_its_protocols(broker: Broker, group_id: str) -> None:
    assert Member(broker, group_id=group_id, protocols=()).send_join().message.error_code


def _its_consumer_leaves(broker: Broker, group_id: str) -> None:
    consumer = Consumer(broker, group_id=group_id)
    assert not consumer.join()
    consumer.leave()


def _its_consumer_leaves_and_its_offset_is_deleted(broker: Broker, group_id: str) -> None:
    consumer = Consumer(broker, group_id=group_id)
    assert not consumer.join()
    commit(broker, 1, group_id=group_id, generation_id=consumer.epoch, member_id=consumer.member_id, version=9)
    consumer.leave()
    _forget(broker, group_id)


def _its_static_consumer_leaves_for_a_while(broker: Broker, group_id: str) -> None:
    consumer = Consumer(broker, group_id=group_id, instance_id="static")
    assert not consumer.join()
    consumer.send(member_epoch=-2)


def _its_consumer_is_refused_for_its_assignor(broker: Broker, group_id: str) -> None:
    assert Consumer(broker, group_id=group_id, assignor="nobody's").join()


def _its_consumer_is_refused_for_its_pattern(broker: Broker, group_id: str) -> None:
    assert Consumer(broker, group_id=group_id, topics=None, regex="(").join()


def _its_offset_is_deleted_and_a_consumer_is_refused(broker: Broker, group_id: str) -> None:
    _its_offset_is_deleted(broker, group_id)
    assert Consumer(broker, group_id=group_id, assignor="nobody's").join()


def _its_consumer_leaves_and_a_member_never_joins(broker: Broker, group_id: str) -> None:
    _its_consumer_leaves(broker, group_id)
    _member(broker, group_id)


ENDS: tuple[Callable[[Broker, str], None], ...] = (
    _its_offset_is_deleted,
    _its_offset_is_deleted_and_another_stays,
    _its_topic_is_deleted,
    _it_is_deleted,
    _it_is_deleted_when_its_offset_is,
    _its_offset_was_to_be_kept_for_a_moment,
    _its_commit_is_refused_for_its_metadata,
    _its_commit_is_of_no_topic,
    _its_offsets_are_fetched,
    _its_transaction_is_aborted,
    _its_transaction_is_open_when_its_offset_is_deleted,
    _its_transaction_is_open_when_its_topic_is_deleted,
    _its_member_leaves,
    _its_member_leaves_and_its_offset_is_deleted,
    _its_member_is_silent,
    _its_member_never_joins,
    _its_member_leaves_before_it_joins,
    _its_join_is_refused_for_its_session_timeout,
    _its_join_is_refused_for_its_member_id,
    _its_join_is_refused_for_its_protocols,
    _its_consumer_leaves,
    _its_consumer_leaves_and_its_offset_is_deleted,
    _its_static_consumer_leaves_for_a_while,
    _its_consumer_is_refused_for_its_assignor,
    _its_consumer_is_refused_for_its_pattern,
    _its_offset_is_deleted_and_a_consumer_is_refused,
    _its_consumer_leaves_and_a_member_never_joins,
)

# --- the looks --------------------------------------------------------------------------------------------------------


def _look(broker: Broker, group_id: str) -> tuple[Any, ...]:
    """Its state as DescribeGroups 5 has it, what version 6 says, its state as a consumer group, its entry in the list,
    and how a commit by a stranger and an OffsetDelete are answered."""
    old, new = (broker.ask(DescribeGroupsRequest(groups=[group_id]), version).groups[0] for version in (5, 6))
    modern = broker.ask(ConsumerGroupDescribeRequest(group_ids=[group_id]), 1).groups[0]
    entries = [group for group in broker.ask(ListGroupsRequest(), 5).groups if group.group_id == group_id]
    listed = [(group.protocol_type, group.group_state, group.group_type) for group in entries]
    commits = Member(broker, group_id=group_id, member_id="stranger", generation_id=1).commit(1).name
    deletes = _name(broker.ask(OffsetDeleteRequest(group_id=group_id), 0).error_code)
    modern_state = _name(modern.error_code) if modern.error_code else modern.group_state
    return old.group_state, _name(new.error_code), modern_state, *(listed or [()]), commits, deletes


def conversation(broker: Broker) -> Told:
    """How each group looks after its end; later, if it looks otherwise."""
    made = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in (TOPIC, GONE)]
    assert not any(topic.error_code for topic in broker.ask(CreateTopicsRequest(topics=made), 5).topics)
    wanted = [MetadataRequestTopic(name=name) for name in (TOPIC, GONE)]
    while any(topic.error_code for topic in broker.ask(MetadataRequest(topics=wanted), 12).topics):
        broker.let_pass(100)
    for key_type in (0, 1):
        while broker.ask(FindCoordinatorRequest(key="any", key_type=key_type), 2).error_code:
            broker.let_pass(100)
    while ErrorCode(broker.ask(DescribeGroupsRequest(groups=["any"]), 5).groups[0].error_code).retriable:
        broker.let_pass(100)
    for end in ENDS:
        end(broker, _group_of(end))
    answer = broker.ask(DeleteTopicsRequest(topic_names=[GONE], timeout_ms=10_000), 5)
    assert not answer.responses[0].error_code
    broker.let_pass(_SOON_MS)
    seen: dict[str, tuple[Any, ...]] = {}
    for when, delay_ms in (("at once", 0), ("after a session", 2 * _SESSION_MS), ("after the clean-up", _INTERVAL_MS)):
        broker.let_pass(delay_ms)
        for end in ENDS:
            group_id = _group_of(end)
            look = _look(broker, group_id)
            if seen.get(group_id) != look:
                seen[group_id] = look
                yield f"{group_id}: {when}", look


def _group_of(end: Callable[[Broker, str], None]) -> str:
    return end.__name__.strip("_").replace("_", " ")


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {}
