"""A conversation about transactions that any Kafka-compatible broker can be asked to have: each question has a name.

Owns: which request is asked in which state, by whom and in which version. A cell of the table is named by the part of
the conversation, the state, who asks, and the request; its answer is followed by the state that the transactional id is
in afterwards. Does not own: what is asked while markers are on their way (`prepared_transcript`), and when the epochs
are used up (`exhausted_transcript`).
"""

from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Any

from tests.clients.asking import Broker, Told, parts_of
from tests.clients.conversation import GROUP, IMPLICIT, TOPIC, VERIFIED, Conversation, Producer

Question = Callable[[Producer], Any]
_OF_TOPICS = ("unknown", "internal topic")

MAX_TIMEOUT_MS = 900_000
_SHORT_TIMEOUT_MS = 1_000
_HALF_A_SECOND_MS = 500


def conversation(broker: Broker, wall_ms: int) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    yield from parts_of(talk, ids, resumed, table, offsets, timeouts)


def prepare(talk: Conversation) -> None:
    talk.create_topic(TOPIC, 3)
    for key, key_type in ((GROUP, 0), ("any", 1)):
        while talk.ask("FindCoordinator", 2, key=key, key_type=key_type).error_code:
            talk.broker.let_pass(100)
    while talk.ask("DescribeGroups", 5, groups=[GROUP]).groups[0].error_code not in (0, 69):
        talk.broker.let_pass(100)
    # A broker's first verification may find no connection to its coordinator yet.
    producer = talk.started("first")
    while producer.add(0) != ["NONE"] or producer.write() != "NONE":
        talk.broker.let_pass(100)
    producer.ended(True)


# --- InitProducerId ---------------------------------------------------------------------------------------------------


def ids(talk: Conversation) -> Told:
    """InitProducerId before there is anything to look at."""
    for version in range(6):
        nobody = Producer(talk, "", -2, -1)
        yield f"v{version} no transactional id", nobody.pair(talk.init(None, version))
        yield f"v{version} an empty transactional id", nobody.pair(talk.init("", version))
        yield f"v{version} a new transactional id", nobody.pair(talk.init(f"new {version}", version))
        for timeout_ms in (-1, 0, MAX_TIMEOUT_MS + 1, 2**31 - 1):
            answer = talk.init(f"timeout {version}", version, transaction_timeout_ms=timeout_ms)
            yield f"v{version} a timeout of {timeout_ms} ms", nobody.pair(answer)
        answer = talk.init(f"timeout {version}", version, transaction_timeout_ms=MAX_TIMEOUT_MS)
        yield f"v{version} the longest timeout", nobody.pair(answer)
        answer = talk.init(None, version, transaction_timeout_ms=-1)
        yield f"v{version} no transactional id, a timeout of -1 ms", nobody.pair(answer)
    for version in (3, 4, 5):
        for pair in ((7, -1), (-1, 7), (-1, -1), (7, 7)):
            for transactional_id in (None, f"half {version} {pair}"):
                answer = talk.init(transactional_id, version, producer_id=pair[0], producer_epoch=pair[1])
                kind = "no transactional id" if transactional_id is None else "a new transactional id"
                yield f"v{version} {kind}, the pair {pair}", Producer(talk, "", 7, 7).pair(answer)


def resumed(talk: Conversation) -> Told:
    """InitProducerId with and without a pair in each state, and the same again as after a lost answer."""
    for state, bring in STATES.items():
        if state == "unknown":
            continue
        for who, pretend in WHO.items():
            for version in (3, 4, 5):
                producer = pretend(bring(talk, f"resumed {state} {who} {version}"))
                yield f"{state}, {who}, v{version}", (producer.resume(version), producer.settled())
                yield f"{state}, {who}, v{version}, again", (producer.resume(version), producer.settled())
        for version in (0, 2, 3, 5):
            producer = bring(talk, f"renewed {state} {version}")
            yield f"{state}, a new instance, v{version}", (producer.renew(version), producer.settled())
            yield f"{state}, a new instance, v{version}, again", (producer.renew(version), producer.settled())
            yield f"{state}, the old instance ends, v{version}", [producer.end(True, end) for end in (1, 2, 5)]
            yield f"{state}, the old instance resumes, v{version}", producer.resume(max(version, 3))


# --- each request in each state ---------------------------------------------------------------------------------------


def _second(talk: Conversation, transactional_id: str) -> Producer:
    """A second instance, so that there is an older epoch."""
    talk.started(transactional_id)
    return talk.started(transactional_id)


def _unknown(talk: Conversation, transactional_id: str) -> Producer:
    return talk.started(None).but(transactional_id=transactional_id, producer_epoch=1)


def _ongoing(talk: Conversation, transactional_id: str) -> Producer:
    producer = _second(talk, transactional_id)
    _must(producer.add(0), ["NONE"])
    return producer


def _written(talk: Conversation, transactional_id: str) -> Producer:
    producer = _ongoing(talk, transactional_id)
    _must(producer.write(0, version=VERIFIED), "NONE")
    return producer


def _with_offsets(talk: Conversation, transactional_id: str) -> Producer:
    producer = _ongoing(talk, transactional_id)
    _must(producer.add_offsets(), "NONE")
    return producer


def _written_v2(talk: Conversation, transactional_id: str) -> Producer:
    producer = _second(talk, transactional_id)
    _must(producer.write(0, version=IMPLICIT), "NONE")
    return producer


def _must(answer: Any, expected: Any) -> None:
    if answer != expected:
        raise AssertionError(f"{answer}, not {expected}")


STATES: dict[str, Callable[[Conversation, str], Producer]] = {
    "unknown": _unknown,
    "Empty": _second,
    "Ongoing": _ongoing,
    "Ongoing with a batch": _written,
    "Ongoing with a group": _with_offsets,
    "Ongoing by Produce v12": _written_v2,
    "CompleteCommit by v3": lambda talk, transactional_id: _written(talk, transactional_id).ended(True),
    "CompleteAbort by v3": lambda talk, transactional_id: _written(talk, transactional_id).ended(False),
    "CompleteCommit by v5": lambda talk, transactional_id: _written_v2(talk, transactional_id).ended(True, 5),
    "CompleteAbort by v5": lambda talk, transactional_id: _written_v2(talk, transactional_id).ended(False, 5),
    "CompleteAbort of nothing by v5": lambda talk, transactional_id: _second(talk, transactional_id).ended(False, 5),
}
WHO: dict[str, Callable[[Producer], Producer]] = {
    "the producer": lambda producer: producer,
    "an epoch before": lambda producer: producer.but(producer_epoch=producer.producer_epoch - 1),
    "two epochs before": lambda producer: producer.but(producer_epoch=producer.producer_epoch - 2),
    "a later epoch": lambda producer: producer.but(producer_epoch=producer.producer_epoch + 1),
    "another producer id": lambda producer: producer.but(producer_id=producer.producer_id + 500_000),
}


def questions() -> Iterator[tuple[str, Question]]:
    for version in range(4):
        yield f"AddPartitionsToTxn v{version}", methodcaller("add", 1, version=version)
    yield "AddPartitionsToTxn v3, the same partition", methodcaller("add", 0)
    yield "AddPartitionsToTxn v3, one unknown", methodcaller("add", 0, 1, 9)
    yield "AddPartitionsToTxn v3, a topic unknown", methodcaller("add", 1, unknown="nowhere")
    yield "AddPartitionsToTxn v3, an internal topic", methodcaller("add", 0, topic="__consumer_offsets")
    for version in (4, 5):
        yield f"AddPartitionsToTxn v{version}", methodcaller("add_batched", 1, version=version)
        for partition in (0, 1):
            verified = methodcaller("add_batched", partition, version=version, verify_only=True)
            yield f"AddPartitionsToTxn v{version}, verify only, partition {partition}", verified
    yield "AddPartitionsToTxn v5, verify only, both", methodcaller("add_batched", 0, 1, verify_only=True)
    yield "AddPartitionsToTxn v5, the same partition", methodcaller("add_batched", 0)
    yield "AddPartitionsToTxn v5, one unknown", methodcaller("add_batched", 1, 9)
    for version in range(5):
        yield f"AddOffsetsToTxn v{version}", methodcaller("add_offsets", version)
    for version in range(6):
        yield f"TxnOffsetCommit v{version}", methodcaller("commit_offset", version)
    for version in (9, 10, 11, 12):
        for partition in (0, 1):
            yield f"Produce v{version}, partition {partition}", methodcaller("write", partition, version=version)
    for version in range(6):
        for commit in (True, False):
            yield f"EndTxn v{version}, {'commit' if commit else 'abort'}", methodcaller("end", commit, version)


def decided() -> Iterator[tuple[str, Question]]:
    """The questions that the coordinator decides by what it knows of the transactional id, and by nothing else."""
    for question, asked in questions():
        is_of_another_kind = question.startswith(("Produce", "TxnOffsetCommit")) or question.endswith(_OF_TOPICS)
        if not is_of_another_kind:
            yield question, asked
    for version in (3, 4, 5):
        yield f"InitProducerId v{version}", methodcaller("resume", version)


def table(talk: Conversation) -> Told:
    """Every cell has a transactional id of its own, so that no answer depends on another."""
    for state, bring in STATES.items():
        for who, pretend in WHO.items():
            for slot, (question, asked) in enumerate(questions()):
                producer = pretend(bring(talk, f"{state} {who} {slot}"))
                yield f"{state}, {who}, {question}", (asked(producer), producer.settled())


# --- offsets, timeouts ------------------------------------------------------------------------------------------------


def offsets(talk: Conversation) -> Told:
    """TxnOffsetCommit beyond the state of the transaction."""
    for version in (2, 3, 5):
        producer = _with_offsets(talk, f"offsets {version}")
        yield f"v{version} added", (producer.commit_offset(version), producer.settled())
        yield f"v{version} an unknown topic", producer.commit_offset(version, topic="nowhere")
        yield f"v{version} an empty group", producer.commit_offset(version, group_id="")
    for version in (3, 4, 5):
        producer = _with_offsets(talk, f"members {version}")
        yield f"v{version} an unknown member", producer.commit_offset(version, member_id="nobody", generation_id=1)
        yield f"v{version} a generation without a member", producer.commit_offset(version, generation_id=1)
        yield f"v{version} a static member", producer.commit_offset(version, group_instance_id="x", generation_id=1)
    for version in range(5):
        producer = _second(talk, f"no group {version}")
        yield f"AddOffsetsToTxn v{version}, an empty group", (producer.add_offsets(version, ""), producer.settled())
        yield f"AddOffsetsToTxn v{version}, no id", producer.but(transactional_id="").add_offsets(version)
    nameless = talk.started(None)
    for version in (1, 3, 5):
        yield f"EndTxn v{version}, no id", nameless.end(True, version)
    yield "AddPartitionsToTxn v3, no id", nameless.add(0)
    yield "AddPartitionsToTxn v5, no id", nameless.add_batched(0)
    yield "AddPartitionsToTxn v5, no id, verify only", nameless.add_batched(0, verify_only=True)
    for version in (0, 3, 5):
        yield f"TxnOffsetCommit v{version}, no id", nameless.commit_offset(version)


def timeouts(talk: Conversation) -> Told:
    """The answers to a producer whose transaction the coordinator has aborted, and how it recovers."""
    asked = [entry for entry in questions() if entry[0].startswith(("EndTxn", "Produce", "AddOffsets", "TxnOffset"))]
    asked.append(("AddPartitionsToTxn v3", methodcaller("add", 0)))
    asked.append(("InitProducerId v5", methodcaller("resume", 5)))
    asked.append(("InitProducerId v5, a new instance", methodcaller("renew", 5)))
    left: list[tuple[str, Producer, Question]] = []
    for opened, version in (("v11", VERIFIED), ("v12", IMPLICIT)):
        for question, ask in asked:
            producer = talk.started(f"timeout {opened} {question}", transaction_timeout_ms=_SHORT_TIMEOUT_MS)
            if version == VERIFIED:
                producer.add(0)
            producer.write(0, version=version)
            left.append((f"opened by Produce {opened}, {question}", producer, ask))
    for question, producer, ask in left:
        while producer.settled().startswith("Ongoing"):
            talk.broker.let_pass(_HALF_A_SECOND_MS)
        yield f"{question}, before", producer.settled()
        yield question, (ask(producer), producer.settled())
