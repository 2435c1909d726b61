"""A conversation about what becomes of records in a share group (KIP-932): which are acquired by whom, how often, and
what each kind of acknowledgement does.

Owns: the questions, and which part of an answer counts: batches, what is acquired with its delivery counts, errors,
start offsets and lags. Each part has a group of its own and a log of its own.
"""

from typing import Any

from tests.clients.asking import Broker, Told, parts_of
from tests.clients.share_requests import ACCEPT, GAP, REJECT, RELEASE, RENEW, STRICT, Batches, ShareMember, ShareTalk

LOCKS = 100
"""The least that share.partition.max.record.locks may be."""


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = ShareTalk(broker)
    talk.prepare()
    yield from parts_of(
        talk,
        types,
        mixed,
        counts,
        near_the_limit,
        limit_of_two,
        redelivered,
        amounts,
        strict,
        sizes,
        partitions,
        ranges,
        owners,
        renewed,
        locks,
    )


def _log(talk: ShareTalk, topic: str, *counts: int, partitions: int = 1, **settings: Any) -> None:
    """A topic with batches of so many records in each partition, and a group of its name."""
    talk.create(topic, partitions)
    for index in range(partitions):
        for count in counts:
            talk.produce(topic, count, partition=index)
    talk.ready(topic, topic, **settings)


def _start(talk: ShareTalk, topic: str) -> list[tuple[int, int]]:
    """Start offset and lag of each partition."""
    return [(place[3], place[5]) for place in talk.offsets(topic)[-1]]


def types(talk: ShareTalk) -> Told:
    """One type for a whole batch that was acquired."""
    for name, kind in (("accept", ACCEPT), ("release", RELEASE), ("reject", REJECT), ("gap", GAP)):
        topic = f"types.{name}"
        _log(talk, topic, 3, 2)
        member = ShareMember(talk, topic, topic=topic)
        yield f"{name}, acquired", member.records(0)
        yield f"{name}, first batch", (member.done((0, 2, [kind])), _start(talk, topic))
        yield f"{name}, then", member.fetch()[3]
        yield f"{name}, the same again", (member.done((0, 2, [kind])), _start(talk, topic))
        yield f"{name}, all", (member.done((0, 4, [kind])), _start(talk, topic))
        yield f"{name}, the second batch", (member.done((3, 4, [kind])), _start(talk, topic))
        talk.produce(topic, 1)
        yield f"{name}, written", member.records(0)


def mixed(talk: ShareTalk) -> Told:
    """A type for each record."""
    _log(talk, "mixed", 10)
    member = ShareMember(talk, "mixed", topic="mixed")
    yield "acquired", member.records(0)
    kinds = [ACCEPT, RELEASE, REJECT, GAP, RELEASE]
    yield "five of ten", (member.done((0, 4, kinds)), _start(talk, "mixed"))
    yield "five of ten, then", member.records(0)
    yield "one by one", (member.done((1, 1, [ACCEPT]), (4, 4, [RELEASE]), (5, 5, [ACCEPT])), _start(talk, "mixed"))
    yield "one by one, then", member.records(0)
    yield "a batch over those that are done", member.done((3, 6, [ACCEPT]))
    yield "a batch to the end", (member.done((6, 9, [REJECT])), _start(talk, "mixed"))
    yield "the one that is left", (member.done((4, 4, [ACCEPT])), _start(talk, "mixed"))


def counts(talk: ShareTalk) -> Told:
    """Released as often as it may be delivered, five times, and once more."""
    _log(talk, "counts", 1)
    talk.produce("counts", 1)
    member = ShareMember(talk, "counts", topic="counts")
    for delivery in range(1, 7):
        yield f"delivery {delivery}", member.records(0, max_wait_ms=1_000)
        answer = (
            member.done((0, 0, [RELEASE])),
            _start(talk, "counts"),
        )
        yield f"delivery {delivery}, released", answer
    talk.produce("counts", 1)
    yield "what comes after", member.records(0)


def near_the_limit(talk: ShareTalk) -> Told:
    """Records that were delivered often come in smaller parts."""
    _log(talk, "near", 20, 20)
    member = ShareMember(talk, "near", topic="near")
    for delivery in range(1, 6):
        yield f"delivery {delivery}", member.records(0, max_wait_ms=1_000)
        answer = member.done((0, 39, [RELEASE]))
        if answer[0] != "NONE":
            break
    yield "not all of them", answer
    for number in range(4):
        answer = member.records(0, max_wait_ms=500)
        yield f"part {number}", answer
        acquired = [batch for place in answer if isinstance(place, tuple) for batch in place[-1]]
        said = [(first, last, [RELEASE]) for first, last, _ in acquired]
        yield f"part {number}, released", (member.acknowledge(*said)[3], _start(talk, "near"))


def limit_of_two(talk: ShareTalk) -> Told:
    _log(talk, "two", 6, share_delivery_count_limit=2)
    member = ShareMember(talk, "two", topic="two")
    yield "first", member.records(0)
    yield "first, released", (member.done((0, 5, [RELEASE])), _start(talk, "two"))
    for number in range(2):
        answer = member.records(0, max_wait_ms=500)
        yield f"second, part {number}", answer
        acquired = [batch for place in answer if isinstance(place, tuple) for batch in place[-1]]
        said = [(first, last, [RELEASE]) for first, last, _ in acquired]
        yield f"second, part {number}, released", (member.acknowledge(*said)[3], _start(talk, "two"))


def redelivered(talk: ShareTalk) -> Told:
    """Released records are delivered first."""
    _log(talk, "redelivered", 5, 5, 5)
    one, two = (ShareMember(talk, "redelivered", name, topic="redelivered") for name in ("one", "two"))
    yield "one", one.records(0, max_records=4, share_acquire_mode=STRICT)
    yield "two", two.records(0, max_records=4, share_acquire_mode=STRICT)
    yield "one releases", one.done((1, 2, [RELEASE]))
    yield "one reads on", one.records(0, max_records=4, share_acquire_mode=STRICT)
    yield "two releases", two.done((4, 7, [RELEASE]))
    talk.produce("redelivered", 5)
    yield "two reads on", two.records(0)
    yield "two is done", two.done((4, 7, [ACCEPT]))
    yield "one closes", one.acknowledge(acknowledged={}, epoch=-1)[:2]
    talk.broker.let_pass(300)
    yield "two reads the rest", two.records(0)
    yield "where it starts", _start(talk, "redelivered")


def amounts(talk: ShareTalk) -> Told:
    """How many records a fetch acquires: whole batches of the log."""
    for number, limits in enumerate(
        (
            {"max_records": 1},
            {"max_records": 10},
            {"max_records": 11},
            {"max_records": 25},
            {"max_records": 0},
            {"max_records": 500, "batch_size": 1},
            {"max_records": 500, "batch_size": 4},
            {"max_records": 500, "batch_size": 10},
            {"max_records": 500, "batch_size": 15},
            {"max_records": 500, "batch_size": 0},
            {"max_records": 15, "batch_size": 3},
            {"max_records": 500, "max_bytes": 1},
            {"max_records": 500, "max_bytes": 400},
            {"max_records": 500, "max_bytes": 0},
            {"max_records": 500, "min_bytes": 100_000, "max_wait_ms": 500},
        )
    ):
        topic = f"amounts{number}"
        _log(talk, topic, 10, 10, 10)
        member = ShareMember(talk, topic, topic=topic)
        said: dict[str, Any] = limits
        yield f"{said}", member.records(0, **{"max_wait_ms": 1_000, **said})
        yield f"{said}, again", member.records(0, **{"max_wait_ms": 1_000, **said})


def strict(talk: ShareTalk) -> Told:
    """No more than was asked for: parts of batches."""
    for number, limits in enumerate(
        (
            {"max_records": 1},
            {"max_records": 4},
            {"max_records": 10},
            {"max_records": 15},
            {"max_records": 15, "batch_size": 4},
            {"max_records": 500},
            {"max_records": 0},
        )
    ):
        topic = f"strict{number}"
        _log(talk, topic, 10, 10)
        member = ShareMember(talk, topic, topic=topic, fields={"share_acquire_mode": STRICT})
        said: dict[str, Any] = limits
        for question in ("", ", again", ", a third time"):
            yield f"{said}{question}", member.records(0, **{"max_wait_ms": 500, **said})
    yield "another mode", member.fetch(share_acquire_mode=2)
    yield "a mode below zero", member.fetch(share_acquire_mode=-1)


def sizes(talk: ShareTalk) -> Told:
    """A batch size when what was released is acquired again."""
    _log(talk, "sizes", 10, 10)
    member = ShareMember(talk, "sizes", topic="sizes", fields={"batch_size": 4})
    yield "acquired", member.records(0)
    yield "released", member.done((2, 5, [RELEASE]), (12, 13, [RELEASE]), (19, 19, [RELEASE]))
    yield "acquired again", member.records(0)


def partitions(talk: ShareTalk) -> Told:
    """Several partitions in one fetch."""
    _log(talk, "partitions", 5, 5, partitions=3)
    member = ShareMember(talk, "partitions", topic="partitions")
    counted: list[tuple[int, int]] = []
    for _ in range(9):  # which partition is first depends on the topic's id
        answer = member.records(0, 1, 2, max_records=4, share_acquire_mode=STRICT, max_wait_ms=500)
        counted.append((len(answer), sum(last - first + 1 for place in answer for first, last, _ in place[-1])))
    yield "records until there are no more", sum(count for _, count in counted)
    yield "no more than asked for", max(count for _, count in counted)
    yield "nothing at the end", counted[-1][1]


def ranges(talk: ShareTalk) -> Told:
    """Acknowledgements that fit no batch that was acquired."""
    _log(talk, "ranges", 5, 5, 5, 5)
    member = ShareMember(talk, "ranges", topic="ranges")
    yield "acquired", member.records(0, batch_size=5)
    for batches in (
        [(3, 11, [ACCEPT])],
        [(2, 3, [ACCEPT])],
        [(0, 1, [ACCEPT]), (13, 14, [REJECT])],
        [(0, 1, [REJECT])],
        [(0, 2, [RELEASE])],
        [(2, 2, [RELEASE]), (12, 12, [GAP]), (15, 19, [RELEASE, GAP, ACCEPT, REJECT, ACCEPT])],
        [(15, 15, [ACCEPT])],
    ):
        said: Batches = batches
        yield f"{said}", (member.done(*said), _start(talk, "ranges"))
    yield "what is left", member.records(0)
    yield "all of it", (member.done((2, 2, [ACCEPT]), (15, 15, [ACCEPT])), _start(talk, "ranges"))


def owners(talk: ShareTalk) -> Told:
    """Acknowledgements of records that another member has acquired."""
    _log(talk, "owners", 5, 5)
    one, two = (ShareMember(talk, "owners", name, topic="owners") for name in ("one", "two"))
    yield "one", one.records(0, max_records=5)
    yield "two", two.records(0)
    yield "a batch of another", two.done((0, 4, [ACCEPT]))
    yield "a record of another", two.done((2, 2, [ACCEPT]))
    yield "its own and another's", two.done((4, 6, [ACCEPT]))
    yield "its own is still acquired", two.done((5, 6, [RELEASE]))
    yield "released, by another", one.done((5, 5, [ACCEPT]))
    yield "one takes what two has released", one.records(0)
    yield "two had it", two.done((5, 5, [ACCEPT]))
    yield "one has it", (one.done((0, 6, [ACCEPT])), _start(talk, "owners"))


def renewed(talk: ShareTalk) -> Told:
    """Renewing takes nothing away and counts nothing."""
    _log(talk, "renewed", 6)
    member = ShareMember(talk, "renewed", topic="renewed")
    yield "acquired", member.records(0)
    yield "renewed", (member.done((0, 5, [RENEW]), renew=True), _start(talk, "renewed"))
    yield (
        "some renewed, others done",
        (
            member.done((0, 5, [RENEW, ACCEPT, RELEASE, RENEW, REJECT, GAP]), renew=True),
            _start(talk, "renewed"),
        ),
    )
    yield "what was released", member.records(0)
    yield "renewed in two batches", member.done((0, 0, [RENEW]), (2, 3, [RENEW]), renew=True)
    yield "one that is done", member.done((1, 1, [RENEW]), renew=True)
    yield "accepted", (member.done((0, 0, [ACCEPT]), (2, 3, [ACCEPT])), _start(talk, "renewed"))


def locks(talk: ShareTalk) -> Told:
    """No more records in flight than the group's limit, but for whole batches."""
    _log(talk, "locks", *[30] * 6, share_partition_max_record_locks=LOCKS)
    member = ShareMember(talk, "locks", topic="locks")
    yield "first", member.records(0)
    yield "second", member.records(0, max_wait_ms=500)
    yield "one done in the middle", member.done((50, 59, [ACCEPT]))
    yield "it makes no room", member.records(0, max_wait_ms=500)
    yield "the first are done", (member.done((0, 9, [ACCEPT])), _start(talk, "locks"))
    yield "they make room", member.records(0, max_wait_ms=500)
    yield "more are done", (member.done((10, 29, [ACCEPT])), _start(talk, "locks"))
    yield "they make room, strictly", member.records(0, max_wait_ms=500, share_acquire_mode=STRICT)
    yield "all are done", (member.done((30, 49, [ACCEPT]), (60, 89, [ACCEPT])), _start(talk, "locks"))
    yield "the rest", member.records(0, max_wait_ms=500)


_CUT = "Kafka fills the limit with a part of one more batch, which clients drop; we return whole batches"

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "renewed: renewed": (
        "Kafka writes where a group begins with its first acknowledgement that is none of a renewal; here that is "
        "durable before the first records are returned",
        (("NONE", None), [(0, 6)]),
    ),
    "amounts: {'max_records': 500, 'max_bytes': 400}": (_CUT, (("amounts12-0", "0-9", [(0, 9, 1)]),)),
    "amounts: {'max_records': 500, 'max_bytes': 400}, again": (_CUT, (("amounts12-0", "10-19", [(10, 19, 1)]),)),
}
