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


# --- steps ------------------------------------------------------------------------------------------------------------

Step = Callable[[GroupAsker, str], object]
"""What is done to the group of this id."""


def _commits(partition: int = 0, **fields: Any) -> Step:
    return lambda talk, group_id: commit(talk.broker, 1, partition, group_id=group_id, **fields)


def _is_deleted(talk: GroupAsker, group_id: str) -> None:
    assert talk.delete_groups(group_id) == ["NONE"]


def _forgets(talk: GroupAsker, group_id: str) -> None:
    assert talk.delete_offset(group_id, TOPIC) == ("NONE", ["NONE"])


def _opens(topic: str = TOPIC, *, then_aborts: bool = False) -> Step:
    """A transaction with an offset of the topic."""

    def step(talk: GroupAsker, group_id: str) -> None:
        producer = Producer(talk.broker, group_id).init()
        assert not producer.add_offsets(group_id)
        assert not producer.send_commit(1, topic=topic, group_id=group_id)
        if then_aborts:
            producer.end(committed=False)

    return step


def _new_member(talk: GroupAsker, group_id: str) -> Member:
    """A member that has an id, and has not joined with it."""
    member = Member(talk.broker, group_id=group_id, session_timeout_ms=_SESSION_MS, protocols=READS_TOPIC)
    member.member_id = member.send_join().message.member_id
    assert member.member_id
    return member


def _leaves_before_it_joins(talk: GroupAsker, group_id: str) -> None:
    _new_member(talk, group_id).leave()


def _joins(*, commits: bool = False, leaves: bool = True) -> Step:
    def step(talk: GroupAsker, group_id: str) -> None:
        member = _new_member(talk, group_id)
        member.send_join()
        member.learn()
        assert not member.sync({member.member_id: b""}).message.error_code
        if commits:
            member.commit(1)
        if leaves:
            member.leave()

    return step


def _join_is_refused(**fields: Any) -> Step:
    def step(talk: GroupAsker, group_id: str) -> None:
        assert Member(talk.broker, group_id=group_id, **fields).send_join().message.error_code

    return step


def _consumes(*, commits: bool = False, leaves_in: int = -1, **fields: Any) -> Step:
    def step(talk: GroupAsker, group_id: str) -> None:
        consumer = Consumer(talk.broker, group_id=group_id, **fields)
        assert not consumer.join()
        if commits:
            _commits(generation_id=consumer.epoch, member_id=consumer.member_id, version=9)(talk, group_id)
        consumer.leave(leaves_in)

    return step


def _consumer_is_refused(**fields: Any) -> Step:
    def step(talk: GroupAsker, group_id: str) -> None:
        assert Consumer(talk.broker, group_id=group_id, **fields).join()

    return step


# --- the ends ---------------------------------------------------------------------------------------------------------

ENDS: dict[str, tuple[Step, ...]] = {
    "its offset is deleted": (_commits(), _forgets),
    "its offset is deleted and another stays": (_commits(1), _commits(), _forgets),
    "its topic is deleted": (_commits(topic=GONE),),
    "it is deleted": (_commits(), _is_deleted),
    "it is deleted when its offset is": (_commits(), _forgets, _is_deleted),
    "its offset was to be kept for a moment": (_commits(version=4, retention_time_ms=1),),
    "its commit is refused for its metadata": (_commits(metadata="x" * 5_000),),
    "its commit is of no topic": (_commits(topic="nowhere"),),
    "its offsets are fetched": (GroupAsker.all_offsets,),
    "its transaction is aborted": (_opens(then_aborts=True),),
    "its transaction is open when its offset is deleted": (_opens(), _forgets),
    "its transaction is open when its topic is deleted": (_opens(GONE),),
    "its member leaves": (_joins(),),
    "its member leaves and its offset is deleted": (_joins(commits=True), _forgets),
    "its member is silent": (_joins(leaves=False),),
    "its member never joins": (_new_member,),
    "its member leaves before it joins": (_leaves_before_it_joins,),
    "its join is refused for its session timeout": (_join_is_refused(session_timeout_ms=1),),
    "its join is refused for its member id": (_join_is_refused(member_id="stranger"),),
    "its join is refused for its protocols": (_join_is_refused(protocols=()),),
    "its consumer leaves": (_consumes(),),
    "its consumer leaves and its offset is deleted": (_consumes(commits=True), _forgets),
    "its static consumer leaves for a while": (_consumes(instance_id="static", leaves_in=-2),),
    "its consumer is refused for its assignor": (_consumer_is_refused(assignor="nobody's"),),
    "its consumer is refused for its pattern": (_consumer_is_refused(topics=None, regex="("),),
    "its offset is deleted and a consumer is refused": (
        _commits(),
        _forgets,
        _consumer_is_refused(assignor="nobody's"),
    ),
    "its consumer leaves and a member never joins": (_consumes(), _new_member),
}

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
    for group_id, steps in ENDS.items():
        for step in steps:
            step(talk, group_id)
    assert talk.delete_topic(GONE) == "NONE"
    broker.let_pass(_SOON_MS)
    seen: dict[str, tuple[Any, ...]] = {}
    for when, delay_ms in (("at once", 0), ("after a session", 2 * _SESSION_MS), ("after the clean-up", _INTERVAL_MS)):
        broker.let_pass(delay_ms)
        for group_id in ENDS:
            look = _look(talk, group_id)
            if seen.get(group_id) != look:
                seen[group_id] = look
                yield f"{group_id}: {when}", look


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {}
