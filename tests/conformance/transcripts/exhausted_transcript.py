"""Conversations about a transactional id whose epochs are used up; each takes 33,000 requests to come there.

Owns: the ways to the last epoch and over it (by ends, by instances, by a fence, by an end whose marker is held), and
who is asked what on the way. Since each place is reached once, there everybody asks only what changes nothing by the
tables of `tests.support.transactions.tables`; were it to change something, the state that follows would show it.
"""

from tests.clients.asking import Broker, Told
from tests.clients.conversation import IMPLICIT, TOPIC, Conversation, Producer, ends
from tests.conformance.transcripts.prepared_transcript import HELD, as_it_is, create_held
from tests.conformance.transcripts.transaction_transcript import decided, prepare

LAST_EPOCH = 2**15 - 2
"""The last epoch that a producer is given; the one after it is kept for fences."""
_FENCE = LAST_EPOCH + 1
_VERIFY = ("AddPartitionsToTxn v4, verify", "AddPartitionsToTxn v5, verify")
_NOTHING_TO_END = (*_VERIFY, *(f"EndTxn v{version}" for version in range(5)), "EndTxn v5, commit")
"""Requests that change nothing where nothing is open, even if the producer sends them."""
_SAME = ("AddPartitionsToTxn v3, the same partition", "AddPartitionsToTxn v5, the same partition")
_INIT = "InitProducerId"


def _near_the_last(talk: Conversation, transactional_id: str) -> Producer:
    """A producer two epochs before the last."""
    producer = talk.started(transactional_id)
    while producer.producer_epoch < LAST_EPOCH - 2:
        producer = talk.started(transactional_id)
    return producer


def _current(producer: Producer) -> Producer:
    """The producer with the identity that the coordinator has now."""
    state = producer.talk.described(producer.transactional_id)
    return producer.but(producer_id=state.producer_id, producer_epoch=state.producer_epoch)


def _ask(place: str, who: str, producer: Producer, *, only: tuple[str, ...] = ("",), but: tuple[str, ...] = ()) -> Told:
    """Ask what changes nothing: the questions that begin with `only`, without those that begin with `but`."""
    for question, asked in decided():
        if question.startswith(only) and not (but and question.startswith(but)):
            yield f"{place}, {who}, {question}", (asked(producer), producer.settled())


def _strangers(place: str, producer: Producer) -> Told:
    yield from _ask(place, "another producer id", producer.but(producer_id=producer.producer_id + 500_000))


def _at_the_last_epoch(place: str, old: Producer) -> Told:
    """Nothing is open."""
    yield from _ask(place, "the producer", old, only=_NOTHING_TO_END)
    yield from _ask(place, "an epoch before", old.but(producer_epoch=LAST_EPOCH - 1), but=(_INIT,))
    yield from _ask(place, "two epochs before", old.but(producer_epoch=LAST_EPOCH - 2))
    yield from _ask(place, "a later epoch", old.but(producer_epoch=_FENCE))
    yield from _strangers(place, old)


def _after_the_last_epoch(place: str, old: Producer, new: Producer) -> Told:
    """Nothing has begun under the new id."""
    yield from _ask(place, "the producer", new, only=_NOTHING_TO_END)
    yield from _ask(place, "a later epoch", new.but(producer_epoch=1))
    yield from _ask(place, "the new id at the epoch before", new.but(producer_epoch=LAST_EPOCH), but=(_INIT,))
    yield from _ask(place, "the id before at its last epoch", old.but(producer_epoch=LAST_EPOCH), but=(_INIT,))
    yield from _ask(place, "the id before at its fence", old.but(producer_epoch=_FENCE))
    yield from _ask(place, "the id before at an older epoch", old.but(producer_epoch=LAST_EPOCH - 1))
    yield from _strangers(place, new)


# --- the ways ---------------------------------------------------------------------------------------------------------


def by_ends(broker: Broker, wall_ms: int) -> Told:
    """A producer whose ends use up its epochs; `broker` must be fresh, and have the time for 33,000 requests."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    producer = _near_the_last(talk, "used up")
    for epoch in (LAST_EPOCH - 2, LAST_EPOCH - 1, LAST_EPOCH):
        producer = producer.but(producer_epoch=epoch)
        yield f"epoch {epoch}: written", (producer.write(0, version=IMPLICIT), producer.settled())
        if epoch == LAST_EPOCH:
            yield from _open_at_the_last_epoch(producer)
        yield f"epoch {epoch}: ended", (producer.end(True, 5), producer.settled())
        yield f"epoch {epoch}: ended again", (producer.end(True, 5), producer.settled())
        yield f"epoch {epoch}: the other end", producer.end(False, 5)
    yield "the old id ends as of old", producer.end(True, 3)
    yield "the old id writes", producer.write(0, sequence=1, version=IMPLICIT)
    yield "the old id adds", producer.add(0)
    fresh = _current(producer)
    yield from _after_the_last_epoch("CompleteCommit", producer, fresh)
    yield "the new id writes", (fresh.write(0, version=IMPLICIT), fresh.settled())
    yield "the old id ends while the new one is open", (producer.end(True, 5), producer.settled())
    yield "the old id resumes while the new one is open", (producer.resume(), producer.settled())
    yield "the new id ends", (fresh.end(True, 5), fresh.settled())
    yield "the old id resumes", (producer.resume(), producer.settled())
    yield "a new instance", (producer.renew(), producer.settled())


def _open_at_the_last_epoch(producer: Producer) -> Told:
    """A transaction of partition 0 is open. A request for a new identity would end it."""
    place = "Ongoing"
    yield from _ask(place, "the producer", producer, only=(*_VERIFY, *_SAME))
    for who, epoch in (("an epoch before", -1), ("two epochs before", -2), ("a later epoch", 1)):
        yield from _ask(place, who, producer.but(producer_epoch=LAST_EPOCH + epoch), but=(_INIT,))
    yield from _strangers(place, producer)


def by_instances(broker: Broker, wall_ms: int) -> Told:
    """Instances that use up the epochs, the last of them by a fence; the same goes for `broker`."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    first = _near_the_last(talk, "used up")
    yield "written two epochs before the last", first.write(0, version=IMPLICIT)
    yield "a new instance comes", (first.renew(), first.settled())
    yield "the new instance asks again", (first.renew(), first.settled())
    last = _current(first)
    yield from _at_the_last_epoch("Empty", last)
    yield "added at the last epoch", (last.add(0), last.settled())
    yield "written at the last epoch", last.write(0)
    yield "ended at the last epoch", (last.end(True), last.settled())
    yield from _at_the_last_epoch("CompleteCommit", last)
    yield "resumed at the last epoch", (last.resume(), last.settled())
    yield from _after_the_last_epoch("Empty after the last epoch", last, _current(last))
    yield "resumed again, the answer was lost", (last.resume(), last.settled())
    borrowed = _current(last).but(producer_epoch=LAST_EPOCH)
    yield "resumed by the new id with the epoch before", (borrowed.resume(), last.settled())
    yield "the old id writes", last.write(0, sequence=1)
    yield "the old id ends", [last.end(True, version) for version in (1, 2, 5)]
    fresh = _current(last)
    yield "the new id adds and writes", (fresh.add(0), fresh.write(0), fresh.settled())
    yield "the old id resumes while the new one is open", (last.resume(), last.settled())
    yield "the old id of an older epoch resumes", (first.resume(), last.settled())
    yield "the new id ends", (fresh.end(True), fresh.settled())


def fenced_at_the_last_epoch(broker: Broker, wall_ms: int) -> Told:
    """A new instance over a transaction at the last epoch; the same goes for `broker`."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    producer = _near_the_last(talk, "used up").ended(False, 5).ended(False, 5)
    yield "written at the last epoch", (producer.write(0, version=IMPLICIT), producer.settled())
    yield "a new instance comes", (producer.renew(), producer.settled())
    current = _current(producer)
    if current.producer_id == producer.producer_id:  # transaction.version 1: the fence has taken the epoch after it
        yield from _ask("CompleteAbort", "the fence", current, only=_NOTHING_TO_END)
        yield from _ask("CompleteAbort", "the producer", producer)
        yield from _ask("CompleteAbort", "an epoch before", producer.but(producer_epoch=LAST_EPOCH - 1))
        yield from _strangers("CompleteAbort", producer)
    else:
        yield from _after_the_last_epoch("CompleteAbort after the last epoch", producer, current)
    yield "the new instance asks again", (producer.renew(), producer.settled())
    yield "the old instance ends", [producer.end(False, version) for version in (1, 2, 5)]
    yield "the old instance writes", producer.write(0, sequence=1, version=IMPLICIT)
    yield "the old instance resumes", (producer.resume(), producer.settled())


def held_at_the_last_epoch(broker: Broker, wall_ms: int) -> Told:
    """An end that gives out the next id, and a marker that holds it there; the same goes for `broker`."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    create_held(talk)
    producer = _near_the_last(talk, "used up").ended(False, 5).ended(False, 5)
    yield "added at the last epoch", (producer.add(0), producer.add(0, topic=HELD))
    yield "written at the last epoch", producer.write(0, version=IMPLICIT)
    answer = talk.ask("EndTxn", 5, committed=True, **producer.identity)
    yield "ended at the last epoch", producer.pair(answer)
    while len(set(ends(talk, TOPIC))) > 1:
        talk.broker.let_pass(10)
    state = talk.described("used up")
    yield "described", (state.transaction_state, state.producer_id == producer.producer_id, state.producer_epoch)
    claims = {
        "the producer": producer,
        "the fence": producer.but(producer_epoch=_FENCE),
        "an epoch before": producer.but(producer_epoch=LAST_EPOCH - 1),
        "the next id": producer.but(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch),
        "another producer id": producer.but(producer_id=producer.producer_id + 500_000, producer_epoch=0),
    }
    for who, claimed in claims.items():
        for question, asked in decided():
            yield f"PrepareCommit, {who}, {question}", (asked(claimed), as_it_is(claimed))
    yield "PrepareCommit, a new instance", (producer.renew(), as_it_is(producer))
