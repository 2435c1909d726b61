"""A conversation about ShareFetch and ShareAcknowledge (KIP-932): sessions and their epochs, and every request that is
refused.

Owns: the questions, and which part of an answer counts: errors, what is acquired, batches. Does not own: what becomes
of records that are acknowledged one way or another (`share_delivery_transcript`).
"""

from typing import Any

from tests.clients.asking import Broker, Told, parts_of
from tests.clients.share_requests import ACCEPT, GAP, REJECT, RELEASE, RENEW, Batches, ShareMember, ShareTalk

SESSIONS = 4
SETTINGS = (f"group.share.max.share.sessions={SESSIONS}", f"group.share.max.size={SESSIONS}")
LOCKED_MS = 500
SOON_MS = 300


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = ShareTalk(broker)
    talk.prepare(log=3, other=1)
    yield from parts_of(
        talk,
        validation,
        epochs,
        partitions,
        final,
        refused_batches,
        renewed,
        several_members,
        gone_topic,
        full,
        not_there,
        without_group,
    )


def _released(member: ShareMember) -> None:
    """Ends the member's session. What it had acquired is released after the answer."""
    member.acknowledge(acknowledged={}, epoch=-1)
    member.talk.broker.let_pass(SOON_MS)


def validation(talk: ShareTalk) -> Told:
    for version in (1, 2):
        for group_id, member_id in ((None, "m"), ("", "m"), ("g", None), ("g", ""), ("g", " "), ("g", "m" * 37)):
            member = ShareMember(talk, group_id, member_id)
            who = f"version {version}, group {group_id!r}, member {member_id!r}"
            yield f"fetch, {who}", member.fetch(epoch=0, version=version)
            yield f"acknowledge, {who}", member.acknowledge(version=version, epoch=1)
            if group_id == "" or member_id == " ":
                _released(member)
    member = ShareMember(talk, "g")
    for epoch in (-1, 1, 5, -2):
        yield f"fetch in epoch {epoch} of no session", member.fetch(epoch=epoch)
    for epoch in (-1, 0, 1, -2):
        yield f"acknowledge in epoch {epoch} of no session", member.acknowledge(epoch=epoch)
    yield "acknowledge with the first fetch", member.fetch(acknowledged={0: [(0, 0, [ACCEPT])]}, epoch=0)
    yield "no session after that", member.fetch(epoch=1)


def epochs(talk: ShareTalk) -> Told:
    talk.produce("log", 3)
    talk.ready("epochs", "log")
    member = ShareMember(talk, "epochs")
    yield "first", member.fetch(0, max_wait_ms=5_000)
    yield "next", member.fetch()
    for epoch in (1, 3, 9, -2):
        yield f"epoch {epoch} instead of 2", member.fetch(epoch=epoch)
        yield f"epoch {epoch} instead of 2, acknowledging", member.acknowledge((0, 0, [ACCEPT]), epoch=epoch)
    yield "epoch 2, acknowledging", member.acknowledge((0, 0, [ACCEPT]))
    yield "epoch 0, acknowledging", member.acknowledge((1, 1, [ACCEPT]), epoch=0)
    member.epoch = 3
    yield "epoch 3", member.fetch()
    yield "anew", member.fetch(0, epoch=0)
    yield "anew, then its record of before", member.acknowledge((1, 1, [ACCEPT]))
    yield "anew, then", member.fetch()
    yield "last", member.fetch(epoch=-1)
    yield "after the last", member.fetch(epoch=3)


def partitions(talk: ShareTalk) -> Told:
    """The partitions of a session, and the answer about each."""
    for index in (0, 1, 2):
        talk.produce("log", 2, partition=index)
    talk.ready("partitions", "log", "other")
    member = ShareMember(talk, "partitions")
    yield "nothing", member.fetch(epoch=0)
    yield "one", member.fetch(1, max_wait_ms=5_000)
    yield "one more", member.fetch(2, max_wait_ms=5_000)
    yield "the same again", member.fetch(2)
    talk.produce("log", 2, partition=1)
    yield "one is forgotten", member.fetch(forgotten=[1])
    yield "forgotten and added at once", member.fetch(1, forgotten=[1], max_wait_ms=LOCKED_MS)
    yield "acknowledged where it is forgotten", member.acknowledge(acknowledged={1: [(0, 1, [ACCEPT])]})
    yield "acknowledged with a fetch", member.fetch(acknowledged={2: [(0, 1, [ACCEPT])]})
    answer = member.fetch(0, acknowledged={2: [(0, 1, [ACCEPT])]}, max_wait_ms=5_000)
    yield "acknowledged with a fetch of another partition", answer
    yield "acknowledged, nothing fetched", member.fetch(acknowledged={0: [(0, 0, [ACCEPT])]}, max_records=0)
    yield "a partition that nobody has fetched", member.acknowledge(acknowledged={("other", 0): [(0, 0, [ACCEPT])]})
    yield "acknowledging nothing", member.acknowledge(acknowledged={})
    yield "acknowledging no batches", member.acknowledge(acknowledged={0: []})
    yield "acknowledging no batches beside some", member.acknowledge(acknowledged={0: [], 1: [(1, 1, [ACCEPT])]})
    _released(member)


def final(talk: ShareTalk) -> Told:
    """The effects of a session's last request."""
    talk.produce("other", 6)
    talk.ready("final", "other")
    member, next_member = (ShareMember(talk, "final", name, topic="other") for name in ("m", "next"))
    yield "acquired", member.records(0)
    answer = member.fetch(("other", 0), acknowledged={("other", 0): [(0, 1, [ACCEPT])]}, epoch=-1)
    yield "the last fetch, with partitions", answer
    talk.broker.let_pass(SOON_MS)
    yield "the rest is released", next_member.records(0)
    yield "the last acknowledgement", next_member.acknowledge((2, 2, [REJECT]), epoch=-1)
    talk.broker.let_pass(SOON_MS)
    yield "the rest is released again", member.records(0, epoch=0)
    yield "a last acknowledgement that is refused", member.acknowledge((0, 9, [ACCEPT]), epoch=-1)
    talk.broker.let_pass(SOON_MS)
    yield "the rest is released all the same", next_member.records(0, epoch=0)
    yield "a last acknowledgement of nothing", next_member.acknowledge(acknowledged={}, epoch=-1)
    yield "again", next_member.acknowledge(acknowledged={}, epoch=-1)
    talk.broker.let_pass(SOON_MS)
    yield "a third time", member.records(0, epoch=0)
    _released(member)


def refused_batches(talk: ShareTalk) -> Told:
    """Acknowledgements that are refused for their form: none of them changes what is acquired."""
    talk.produce("log", 10, partition=2)
    talk.ready("refused", "log")
    member = ShareMember(talk, "refused")
    yield "acquired", member.records(2)
    for batches in (
        [(5, 3, [ACCEPT])],
        [(3, 5, [])],
        [(3, 5, [ACCEPT, ACCEPT])],
        [(3, 5, [ACCEPT] * 4)],
        [(3, 3, [ACCEPT] * 2)],
        [(3, 5, [5])],
        [(3, 5, [-1])],
        [(3, 5, [ACCEPT, ACCEPT, 9])],
        [(3, 5, [RENEW])],
        [(3, 5, [RENEW, ACCEPT, ACCEPT])],
        [(6, 7, [ACCEPT]), (3, 4, [ACCEPT])],
        [(3, 5, [ACCEPT]), (4, 6, [ACCEPT])],
        [(3, 5, [ACCEPT]), (7, 6, [ACCEPT])],
        [(3, 4, [ACCEPT]), (20, 30, [ACCEPT])],
        [(-5, -1, [ACCEPT])],
        [(100, 110, [ACCEPT])],
        [(8, 40, [ACCEPT])],
    ):
        said: Batches = batches
        answer = member.acknowledge(acknowledged={2: said})
        yield f"{said}", (answer[0], answer[3])
        answer = member.fetch(acknowledged={2: said})
        yield f"with a fetch, {said}", (answer[0], answer[3])
    yield "beside another partition", member.acknowledge(acknowledged={2: [(5, 3, [ACCEPT])], 0: [(0, 0, [ACCEPT])]})
    yield "version 1, renewed", member.acknowledge(acknowledged={2: [(0, 0, [RENEW])]}, version=1)
    yield "version 1, a gap", member.acknowledge(acknowledged={2: [(0, 0, [GAP])]}, version=1)
    yield "touching batches", member.acknowledge(acknowledged={2: [(1, 2, [ACCEPT]), (2, 3, [ACCEPT])]})
    yield "the rest", member.acknowledge(acknowledged={2: [(1, 11, [ACCEPT])]})
    _released(member)


def renewed(talk: ShareTalk) -> Told:
    """Requests that renew locks may do nothing else."""
    talk.ready("renewed", "log")
    member = ShareMember(talk, "renewed")
    yield "acquired", member.records(2, max_records=4, share_acquire_mode=1)
    nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    for field, value in (("max_wait_ms", 1), ("min_bytes", 1), ("max_bytes", 1), ("max_records", 1)):
        answer = member.fetch(is_renew_ack=True, epoch=1, **{**nothing, field: value})
        yield f"{field} is {value}", answer
    yield "all are 1", member.fetch(is_renew_ack=True, epoch=1, **dict.fromkeys(nothing, 1))
    yield "in no session", ShareMember(talk, "renewed", "n").fetch(is_renew_ack=True, epoch=4, **nothing)
    renews: dict[Any, Batches] = {2: [(0, 1, [RENEW])]}
    yield "renewed by a fetch", member.fetch(acknowledged=renews, is_renew_ack=True, **nothing)
    yield "renewed by a fetch, not saying so", member.fetch(acknowledged=renews)
    yield "renewed", member.acknowledge(acknowledged=renews, renew=True)
    yield "renewed, not saying so", member.acknowledge(acknowledged=renews)
    yield "renewed and accepted", member.acknowledge(acknowledged={2: [(0, 1, [RENEW, ACCEPT])]}, renew=True)
    yield "accepted, saying that it renews", member.acknowledge(acknowledged={2: [(2, 2, [ACCEPT])]}, renew=True)
    yield "renewed when accepted", member.acknowledge(acknowledged={2: [(1, 1, [RENEW])]}, renew=True)
    yield "version 1 does not know of it", member.fetch(acknowledged={2: [(3, 3, [ACCEPT])]}, version=1)
    _released(member)
    talk.configure("renewed", share_renew_acknowledge_enable="false")
    member = ShareMember(talk, "renewed")
    yield "switched off: acquired", member.records(2, max_records=2, share_acquire_mode=1)
    renews = {2: [(0, 0, [RENEW])]}
    yield "switched off: renewed", member.acknowledge(acknowledged=renews, renew=True)
    yield "switched off: renewed by a fetch", member.fetch(acknowledged=renews, is_renew_ack=True, **nothing)
    _released(member)


def not_there(talk: ShareTalk) -> Told:
    """Topics and partitions that are not there: acknowledged, and in a session."""
    talk.ready("not there", "log")
    for place in (("log", 7), ("log", -1), ("no topic", 0), ("zero", 0)):
        member = ShareMember(talk, "not there")
        yield f"{place}", member.fetch(place)
        yield f"{place}, again", member.fetch()
        yield f"{place}, beside one that is there", member.fetch(2, max_wait_ms=5_000)
        yield f"{place}, forgotten", member.fetch(forgotten=[place])
        yield f"{place}, acknowledged", member.acknowledge(acknowledged={place: [(0, 0, [ACCEPT])]})
        yield f"{place}, no batches acknowledged", member.acknowledge(acknowledged={place: []})
        yield f"{place}, acknowledged with a fetch", member.fetch(acknowledged={place: [(0, 0, [ACCEPT])]})
        beside: dict[Any, Batches] = {place: [(0, 0, [ACCEPT])], 2: [(0, 9, [RELEASE])]}
        yield f"{place}, acknowledged beside one that is there", member.acknowledge(acknowledged=beside)
        _released(member)


def without_group(talk: ShareTalk) -> Told:
    """Fetches for a group that has no members, and of a topic to which it is not subscribed."""
    member = ShareMember(talk, "nobody")
    yield "no group", member.fetch(0, max_wait_ms=LOCKED_MS)
    yield "no group, again", member.fetch(max_wait_ms=LOCKED_MS)
    yield "no group, acknowledged", member.acknowledge((0, 0, [ACCEPT]))
    _released(member)
    talk.ready("one topic", "log")
    member = ShareMember(talk, "one topic", "m", topic="other")
    yield "another topic", member.fetch(0, max_wait_ms=LOCKED_MS)
    _released(member)
    stranger = ShareMember(talk, "one topic", "stranger")
    yield "who has not joined", stranger.records(2)
    _released(stranger)


def several_members(talk: ShareTalk) -> Told:
    talk.ready("several", "log")
    one, two = (ShareMember(talk, "several", name) for name in ("one", "two"))
    yield "one", one.records(2, max_records=3, share_acquire_mode=1)
    yield "two", two.records(2, max_records=3, share_acquire_mode=1)
    yield "two acknowledges one's", two.done(acknowledged={2: [(0, 1, [ACCEPT])]})
    yield "one acknowledges its own and two's", one.done(acknowledged={2: [(2, 3, [ACCEPT])]})
    yield "one acknowledges its own", one.done(acknowledged={2: [(0, 2, [ACCEPT])]})
    yield "one again", one.done(acknowledged={2: [(0, 2, [ACCEPT])]})
    other = ShareMember(talk, "other group", "one")
    yield "another group's session", other.fetch(epoch=2)
    for member in (one, two):
        _released(member)


def gone_topic(talk: ShareTalk) -> Told:
    """A topic that goes while its records are acquired, and comes again."""
    talk.create("going", 1)
    talk.produce("going", 3)
    talk.ready("going", "going")
    member = ShareMember(talk, "going", topic="going")
    yield "acquired", member.records(0)
    talk.ask("DeleteTopics", 5, topic_names=["going"], timeout_ms=10_000)
    talk.broker.let_pass(1_000)
    yield "gone, acknowledged", member.acknowledge((0, 0, [ACCEPT]))
    talk.ids["old"] = talk.ids["going"]
    talk.create("going", 1)
    talk.produce("going", 2)
    talk.join("going", "m", "going")
    talk.initialized("going", "going")
    yield "the old id is forgotten", member.fetch(forgotten=[("old", 0)])
    yield "there again, fetched", member.fetch()
    yield "there again, the old id acknowledged", member.acknowledge(acknowledged={("old", 0): [(0, 0, [ACCEPT])]})
    yield "there again, the new id", member.fetch(0, max_wait_ms=5_000)
    _released(member)


def full(talk: ShareTalk) -> Told:
    """Sessions beyond the limit."""
    members = [ShareMember(talk, "full", f"m{number}") for number in range(SESSIONS + 1)]
    for number, member in enumerate(members):
        yield f"session {number}", member.fetch(epoch=0, max_wait_ms=LOCKED_MS)
    yield "one that is there", members[0].fetch()
    yield "one that is there, anew", members[0].fetch(epoch=0)
    _released(members[1])
    yield "after one has ended", members[-1].fetch(epoch=0)
    for member in members:
        _released(member)


_RELOADED = (
    "Kafka keeps the share-partitions of a group that has no session any more until its connection is closed; here "
    "they are dropped at once, and read again with what is left of a batch as a batch, which is delivered in smaller "
    "parts"
)
_NAMELESS = "Kafka fails when it counts the bytes of a topic that has no name any more; we say which id is unknown"


def _unknown(topic: str, acknowledgement: str, *others: tuple[Any, ...]) -> tuple[str, object]:
    place = (f"{topic}-0", "UNKNOWN_TOPIC_ID", None, acknowledgement, None, (0, 0), "", [])
    return _NAMELESS, ("NONE", None, 30_000, [*others, place], 0)


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "final: the rest is released all the same": (_RELOADED, (("other-0", "0-5", [(3, 3, 4)]),)),
    **{
        f"not_there: {(topic, 0)}{question}": _unknown(topic, acknowledgement, *others)
        for topic, acquired in (("no topic", (0, 11, 3)), ("zero", (0, 5, 4)))
        for question, acknowledgement, others in (
            ("", "NONE", ()),
            (", again", "NONE", ()),
            (
                ", beside one that is there",
                "NONE",
                (("log-2", "NONE", None, "NONE", None, (0, 0), "0-1 2-11", [acquired]),),
            ),
            (", acknowledged with a fetch", "UNKNOWN_TOPIC_ID", ()),
        )
    },
}
