"""A conversation about transactions whose end is decided while their markers are on their way, as far as frames go.

Owns: how frames hold a transaction there: one of its partitions takes no batch as large as a marker
(`max.message.bytes`), which Apache Kafka's coordinator does not expect, and so never recovers from. A broker that
writes the marker all the same needs another way to hold it; its test supplies one (`HELD`). Every cell has a
transactional id of its own, as in `transaction_transcript`.
"""

from collections.abc import Callable, Iterator
from operator import methodcaller

from tests.clients.asking import Broker, Told
from tests.clients.conversation import IMPLICIT, TOPIC, VERIFIED, Conversation, Producer, ends
from tests.conformance.transcripts.transaction_transcript import WHO, Question, prepare, questions

HELD = "held"
"""The topic whose partition does not take its marker."""
_LESS_THAN_A_MARKER = "70"


def conversation(broker: Broker, wall_ms: int) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    create_held(talk)
    for state, bring in STATES.items():
        for who, pretend in WHO.items():
            for slot, (question, asked) in enumerate(_questions()):
                producer = pretend(bring(talk, f"{state} {who} {slot}"))
                yield f"{state}, {who}, {question}", (asked(producer), as_it_is(producer))


def create_held(talk: Conversation) -> None:
    talk.create_empty_topic(HELD, 1, configs=[("max.message.bytes", _LESS_THAN_A_MARKER)])


def as_it_is(producer: Producer) -> str:
    """State and epoch as they are: nothing here settles."""
    state = producer.talk.described(producer.transactional_id)
    return f"{state.transaction_state}, epoch {state.producer_epoch}"


def _prepared(opens_with: int, ends_with: int, commit: bool) -> Callable[[Conversation, str], Producer]:
    def bring(talk: Conversation, transactional_id: str) -> Producer:
        talk.started(transactional_id)
        producer = talk.started(transactional_id)
        added = [producer.add(0), producer.add(0, topic=HELD)]
        while added[1] == ["UNKNOWN_TOPIC_OR_PARTITION"]:  # a new topic
            talk.broker.let_pass(100)
            added[1] = producer.add(0, topic=HELD)
        if [*added, producer.write(0, version=opens_with)] != [["NONE"], ["NONE"], "NONE"]:
            raise AssertionError(f"{transactional_id} was not opened: {added}")
        return _ended(producer, commit, ends_with)

    return bring


def _ended(producer: Producer, commit: bool, version: int) -> Producer:
    """End the transaction; return the producer with its next identity. One of its markers is still on its way."""
    answer = producer.end(commit, version)
    if (answer[0] if version >= 5 else answer) != "NONE":
        raise AssertionError(answer)
    while len(set(ends(producer.talk, TOPIC))) > 1:  # the partition that is not held may have its marker, or not yet
        producer.talk.broker.let_pass(10)
    state = producer.talk.described(producer.transactional_id)
    return producer.but(producer_id=state.producer_id, producer_epoch=state.producer_epoch)


STATES: dict[str, Callable[[Conversation, str], Producer]] = {
    "PrepareCommit by v3": _prepared(VERIFIED, 3, True),
    "PrepareAbort by v3": _prepared(VERIFIED, 3, False),
    "PrepareCommit by v5": _prepared(IMPLICIT, 5, True),
    "PrepareAbort by v5": _prepared(IMPLICIT, 5, False),
}


def _questions() -> Iterator[tuple[str, Question]]:
    yield from questions()
    for version in (3, 4, 5):
        yield f"InitProducerId v{version}", methodcaller("resume", version)
    for version in (0, 3, 4, 5):
        yield f"InitProducerId v{version}, a new instance", methodcaller("renew", version)
