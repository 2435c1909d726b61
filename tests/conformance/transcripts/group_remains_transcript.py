"""What is left of a group when nothing of it is left, until the next clean-up and after it, as any Kafka-compatible
broker can be asked.

Owns: how groups end, and every way to look at one. The broker must be fresh and have the settings below; it takes a
minute of its time. Does not own: what expires (`group_endings_transcript`).
"""

from collections.abc import Callable
from typing import Any

from tests.clients.asking import Broker, Told
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_asker import GroupAsker
from tests.clients.group_members import TOPIC, Member, commit
from tests.clients.offset_producer import Producer
from tests.conformance.transcripts.group_endings_transcript import READS_TOPIC

_INTERVAL_MS = 30_000
SETTINGS = (f"offsets.retention.check.interval.ms={_INTERVAL_MS}",)
GONE = "gone"
_SESSION_MS = 6_000
_SOON_MS = 500


# --- the ends ---------------------------------------------------------------------------------------------------------


def _forget(talk: GroupAsker, group_id: str) -> None:
    assert talk.delete_offset(group_id, TOPIC) == ("NONE", ["NONE"])


def _member(talk: GroupAsker, group_id: str, **settings: Any) -> Member:
    settings = {"protocols": READS_TOPIC, **settings}
    member = Member(talk.broker, group_id=group_id, session_timeout_ms=_SESSION_MS, **settings)
    member.member_id = member.send_join().message.member_id
    return member


def _stable(talk: GroupAsker, group_id: str) -> Member:
    member = _member(talk, group_id)
    member.send_join()
    member.learn()
    assert not member.sync({member.member_id: b""}).message.error_code
    return member


def _its_offset_is_deleted(talk: GroupAsker, group_id: str) -> None:
    commit(talk.broker, 1, group_id=group_id)
    _forget(talk, group_id)


def _its_offset_is_deleted_and_another_stays(talk: GroupAsker, group_id: str) -> None:
    commit(talk.broker, 1, 1, group_id=group_id)
    _its_offset_is_deleted(talk, group_id)


def _its_topic_is_deleted(talk: GroupAsker, group_id: str) -> None:
    commit(talk.broker, 1, topic=GONE, group_id=group_id)


def _it_is_deleted(talk: GroupAsker, group_id: str) -> None:
    commit(talk.broker, 1, group_id=group_id)
    assert talk.delete_groups(group_id) == ["NONE"]


def _it_is_deleted_when_its_offset_is(talk: GroupAsker, group_id: str) -> None:
    _its_offset_is_deleted(talk, group_id)
    assert talk.delete_groups(group_id) == ["NONE"]


def _its_offset_was_to_be_kept_for_a_moment(talk: GroupAsker, group_id: str) -> None:
    commit(talk.broker, 1, group_id=group_id, version=4, retention_time_ms=1)


def _its_commit_is_refused_for_its_metadata(talk: GroupAsker, group_id: str) -> None:
    commit(talk.broker, 1, group_id=group_id, metadata="x" * 5_000)


def _its_commit_is_of_no_topic(talk: GroupAsker, group_id: str) -> None:
    commit(talk.broker, 1, topic="nowhere", group_id=group_id)


def _its_offsets_are_fetched(talk: GroupAsker, group_id: str) -> None:
    talk.all_offsets(group_id)


def _its_transaction_is_aborted(talk: GroupAsker, group_id: str) -> None:
    producer = Producer(talk.broker, group_id).init()
    producer.commit_offset(1, group_id=group_id)
    producer.end(committed=False)


def _its_transaction_is_open_when_its_offset_is_deleted(talk: GroupAsker, group_id: str) -> None:
    producer = Producer(talk.broker, group_id).init()
    producer.commit_offset(1, group_id=group_id)
    _forget(talk, group_id)


def _its_transaction_is_open_when_its_topic_is_deleted(talk: GroupAsker, group_id: str) -> None:
    producer = Producer(talk.broker, group_id).init()
    assert not producer.add_offsets(group_id)
    assert not producer.send_commit(1, topic=GONE, group_id=group_id)


def _its_member_leaves(talk: GroupAsker, group_id: str) -> None:
    _stable(talk, group_id).leave()


def _its_member_leaves_and_its_offset_is_deleted(talk: GroupAsker, group_id: str) -> None:
    member = _stable(talk, group_id)
    member.commit(1)
    member.leave()
    _forget(talk, group_id)


def _its_member_is_silent(talk: GroupAsker, group_id: str) -> None:
    _stable(talk, group_id)


def _its_member_never_joins(talk: GroupAsker, group_id: str) -> None:
    """The member has an id, and does not join with it."""
    assert _member(talk, group_id).member_id


def _its_member_leaves_before_it_joins(talk: GroupAsker, group_id: str) -> None:
    _member(talk, group_id).leave()


def _its_join_is_refused_for_its_session_timeout(talk: GroupAsker, group_id: str) -> None:
    assert Member(talk.broker, group_id=group_id, session_timeout_ms=1).send_join().message.error_code


def _its_join_is_refused_for_its_member_id(talk: GroupAsker, group_id: str) -> None:
    assert Member(talk.broker, group_id=group_id, member_id="stranger").send_join().message.error_code


def _its_join_is_refused_for_its_protocols(talk: GroupAsker, group_id: str) -> None:
    assert Member(talk.broker, group_id=group_id, protocols=()).send_join().message.error_code


def _its_consumer_leaves(talk: GroupAsker, group_id: str) -> None:
    consumer = Consumer(talk.broker, group_id=group_id)
    assert not consumer.join()
    consumer.leave()


def _its_consumer_leaves_and_its_offset_is_deleted(talk: GroupAsker, group_id: str) -> None:
    consumer = Consumer(talk.broker, group_id=group_id)
    assert not consumer.join()
    commit(talk.broker, 1, group_id=group_id, generation_id=consumer.epoch, member_id=consumer.member_id, version=9)
    consumer.leave()
    _forget(talk, group_id)


def _its_static_consumer_leaves_for_a_while(talk: GroupAsker, group_id: str) -> None:
    consumer = Consumer(talk.broker, group_id=group_id, instance_id="static")
    assert not consumer.join()
    consumer.send(member_epoch=-2)


def _its_consumer_is_refused_for_its_assignor(talk: GroupAsker, group_id: str) -> None:
    assert Consumer(talk.broker, group_id=group_id, assignor="nobody's").join()


def _its_consumer_is_refused_for_its_pattern(talk: GroupAsker, group_id: str) -> None:
    assert Consumer(talk.broker, group_id=group_id, topics=None, regex="(").join()


def _its_offset_is_deleted_and_a_consumer_is_refused(talk: GroupAsker, group_id: str) -> None:
    _its_offset_is_deleted(talk, group_id)
    assert Consumer(talk.broker, group_id=group_id, assignor="nobody's").join()


def _its_consumer_leaves_and_a_member_never_joins(talk: GroupAsker, group_id: str) -> None:
    _its_consumer_leaves(talk, group_id)
    _member(talk, group_id)


ENDS: tuple[Callable[[GroupAsker, str], None], ...] = (
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


def _look(talk: GroupAsker, group_id: str) -> tuple[Any, ...]:
    """Its state as DescribeGroups 5 has it, what version 6 says, its state as a consumer group, its entry in the list,
    and how a commit by a stranger and an OffsetDelete are answered."""
    old = talk.ask("DescribeGroups", 5, "groups.0.group_state", groups=[group_id])
    new = talk.ask("DescribeGroups", 6, "groups.0.error_code", groups=[group_id])
    error, state = talk.ask("ConsumerGroupDescribe", 1, "groups.0(error_code group_state)", group_ids=[group_id])
    listed = [rest for listed_id, *rest in talk.listed()[1] if listed_id == group_id]
    commits = Member(talk.broker, group_id=group_id, member_id="stranger", generation_id=1).commit(1).name
    deletes = talk.ask("OffsetDelete", 0, "error_code", group_id=group_id)
    return old, new, state if error == "NONE" else error, *map(tuple, listed or [()]), commits, deletes


def conversation(broker: Broker) -> Told:
    """How each group looks after its end; later, if it looks otherwise."""
    talk = GroupAsker(broker)
    talk.prepare(**{TOPIC: 2, GONE: 2})
    for end in ENDS:
        end(talk, _group_of(end))
    assert talk.delete_topic(GONE) == "NONE"
    broker.let_pass(_SOON_MS)
    seen: dict[str, tuple[Any, ...]] = {}
    for when, delay_ms in (("at once", 0), ("after a session", 2 * _SESSION_MS), ("after the clean-up", _INTERVAL_MS)):
        broker.let_pass(delay_ms)
        for end in ENDS:
            group_id = _group_of(end)
            look = _look(talk, group_id)
            if seen.get(group_id) != look:
                seen[group_id] = look
                yield f"{group_id}: {when}", look


def _group_of(end: Callable[[GroupAsker, str], None]) -> str:
    return end.__name__.strip("_").replace("_", " ")


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {}
