"""A conversation about what a partition takes from producers, plain and transactional, and what it reports about them.

Owns: sequences, epochs, markers from outside, DescribeProducers, DescribeTransactions and ListTransactions, by both
protocols (KIP-98 with verification; KIP-890's part 2). Offsets count here: each part writes to a topic of its own.
"""

from collections.abc import Sequence
from typing import Any

from tests.clients.asking import Broker, Told, counts, parts_of, same
from tests.clients.conversation import IMPLICIT, VERIFIED, Conversation, Producer, ends
from tests.conformance.transcripts.transaction_transcript import prepare

_LAST_SEQUENCE = 2**31 - 1


def conversation(broker: Broker, wall_ms: int) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = Conversation(broker, wall_ms)
    prepare(talk)
    yield from parts_of(
        talk, sequences, classic, made_up, implicit, zombies, markers, markers_by_version, operators, listed
    )


# --- looking ----------------------------------------------------------------------------------------------------------


def _producers(talk: Conversation, topic: str, *known: Producer, partition: int = 0) -> Any:
    """Error, and of each producer: which one it is, epoch, last sequence, coordinator epoch, first offset."""
    places = {producer.producer_id: place for place, producer in enumerate(known)}
    each = "producer_id:place producer_epoch last_sequence coordinator_epoch current_txn_start_offset"
    shape = f"error_code active_producers{{{each}}}"
    return counts(talk.producers(topic, partition), shape, place=lambda producer_id: places.get(producer_id, -1))


# --- batches ----------------------------------------------------------------------------------------------------------


def sequences(talk: Conversation) -> Told:
    """An idempotent producer, without transactions."""
    topic = talk.create_topic("sequences")

    def write(producer: Producer, sequence: int, count: int = 1) -> tuple[str, int]:
        return producer.produce(topic=topic, sequence=sequence, count=count, transactional=False)

    producer = talk.started(None)
    for sequence in range(7):
        yield f"sequence {sequence}", write(producer, sequence)
    for sequence in (6, 5, 4, 3, 2, 1, 0):
        yield f"sequence {sequence} again", write(producer, sequence)
    yield "a gap", write(producer, 8)
    yield "two, the first of them known", write(producer, 6, 2)
    yield "two, both known one by one", write(producer, 5, 2)
    yield "the next ones", write(producer, 7, 3)
    yield "the same three", write(producer, 7, 3)
    yield "the last of the three", write(producer, 9)
    yield "known to the partition", _producers(talk, topic, producer)
    later = producer.but(producer_epoch=1)
    yield "a later epoch, sequence 3", write(later, 3)
    yield "a later epoch, sequence 0", write(later, 0)
    yield "a later epoch, sequence 0 again", write(later, 0)
    yield "the epoch before", write(producer, 10)
    yield "the epoch before, a duplicate", write(producer, 9)
    yield "two epochs later, sequence 3", write(producer.but(producer_epoch=3), 3)
    yield "two epochs later, sequence 0", write(producer.but(producer_epoch=3), 0)
    yield "the last epoch", write(producer.but(producer_epoch=2**15 - 1), 0)
    for start in (5, _LAST_SEQUENCE - 1, _LAST_SEQUENCE):
        stranger = producer.but(producer_id=10**12 + start)
        yield f"an unknown producer, two from sequence {start}", write(stranger, start, 2)
        yield f"then sequence {(start + 2) % 2**31}", write(stranger, (start + 2) % 2**31)
        yield f"then sequence {start + 3 & _LAST_SEQUENCE}, 2", write(stranger, start + 3 & _LAST_SEQUENCE, 2)
    yield "sequence -1", write(producer.but(producer_id=77), -1)
    yield "an epoch of -1", write(producer.but(producer_id=78, producer_epoch=-1), 0)
    yield "ends", ends(talk, topic)


def classic(talk: Conversation) -> Told:
    """Produce up to version 11: the coordinator is asked whether the partition is part of the transaction."""
    topic = talk.create_topic("classic")
    producer = talk.started("classic")

    def write(sequence: int, count: int = 1, **how: Any) -> tuple[str, int]:
        return producer.produce(topic=topic, sequence=sequence, count=count, **how)

    for version in (3, 8, 9, 10, 11):
        yield f"v{version}, not added", write(0, version=version)
    yield "known to the partition, nothing written", _producers(talk, topic, producer)
    yield "added", producer.add(0, topic=topic)
    yield "sequence 1 first", write(1)
    yield "sequence 0", write(0)
    yield "ends, open", ends(talk, topic)
    yield "known to the partition, open", _producers(talk, topic, producer)
    yield "sequence 0 again", write(0)
    yield "a gap", write(5)
    yield "a plain batch of the same producer", write(1, transactional=False)
    yield "v3 goes on", write(1, version=3)
    yield "v12 goes on", write(2, version=IMPLICIT)
    yield "a plain producer", talk.produce(None, topic=topic)
    yield "commits", (producer.end(True), producer.settled())
    yield "ends, committed", ends(talk, topic)
    yield "known to the partition, committed", _producers(talk, topic, producer)
    yield "a duplicate after the end", write(2)
    yield "the next one, not added", write(3)
    yield "a plain batch between", write(3, transactional=False)
    yield "added anew", producer.add(0, topic=topic)
    yield "sequence 0 is not the next", write(0)
    yield "the next one, added", write(4)
    yield "aborts", (producer.end(False), producer.settled())
    yield "ends, aborted", ends(talk, topic)
    second = talk.started("classic")
    yield "a second instance's epoch", second.producer_epoch
    yield "the first instance writes", write(5)
    yield "the first instance writes a duplicate", write(4)
    yield "the first instance adds", [producer.add(0, topic=topic, version=version) for version in (0, 1, 2, 3)]
    yield "the second adds", second.add(0, topic=topic)
    yield "the first instance writes then", write(5)
    yield "the second, sequence 5", second.produce(topic=topic, sequence=5)
    yield "the second, sequence 0", second.produce(topic=topic)
    yield "the first instance writes after it", write(5)
    yield "the second commits", (second.end(True), second.settled())
    yield "ends", ends(talk, topic)
    yield "known to the partition", _producers(talk, topic, producer)


def made_up(talk: Conversation) -> Told:
    """A batch with an epoch that no producer was given."""
    for version in (VERIFIED, IMPLICIT):
        topic = talk.create_topic(f"made-up-{version}")
        producer = talk.started(f"made up {version}")
        later = producer.but(producer_epoch=producer.producer_epoch + 1)
        producer.add(0, topic=topic)
        yield f"v{version}, a batch", producer.produce(topic=topic, version=version)
        yield f"v{version}, a later epoch", later.produce(topic=topic, version=version)
        yield f"v{version}, the next batch", producer.produce(topic=topic, sequence=1, version=version)
        producer.ended(True)
        yield f"v{version}, a later epoch, ended", later.produce(topic=topic, version=version)
        producer.add(0, topic=topic)
        yield f"v{version}, the next transaction", producer.produce(topic=topic, sequence=2, version=version)


def implicit(talk: Conversation) -> Told:
    """Produce 12 and EndTxn 5: partitions are added on the way, each end bumps the epoch."""
    topic = talk.create_topic("implicit")
    producer = talk.started("implicit")

    def write(who: Producer, sequence: int = 0, **how: Any) -> tuple[str, int]:
        return who.produce(topic=topic, sequence=sequence, version=IMPLICIT, **how)

    yield "commits nothing", producer.end(True, 5)
    yield "aborts nothing", (producer.end(False, 5), producer.settled())
    yield "aborts nothing again, by the old epoch", (producer.end(False, 5), producer.settled())
    yield "writes by the old epoch", write(producer)
    first = producer.but(producer_epoch=1)
    yield "sequence 1 first", (write(first, 1), first.settled())
    yield "sequence 0", (write(first), first.settled())
    yield "sequence 0 again", write(first)
    yield "known to the partition, open", _producers(talk, topic, producer)
    yield "ends, open", ends(talk, topic)
    yield "commits", (first.end(True, 5), first.settled())
    yield "commits again, the answer was lost", (first.end(True, 5), first.settled())
    yield "aborts by the old epoch", first.end(False, 5)
    yield "commits two epochs late", producer.end(True, 5)
    yield "a late batch", write(first, 1)
    yield "a late duplicate", write(first)
    yield "a late batch, v11", first.produce(topic=topic, sequence=1)
    yield "known to the partition, committed", _producers(talk, topic, producer)
    second = producer.but(producer_epoch=2)
    yield "the next transaction, sequence 1", write(second, 1)
    yield "the next transaction, sequence 0", write(second)
    yield "an unknown partition", second.produce(9, topic=topic, version=IMPLICIT)
    yield "aborts", (second.end(False, 5), second.settled())
    yield "aborts again, the answer was lost", (second.end(False, 5), second.settled())
    yield "commits by the old epoch", second.end(True, 5)
    third = producer.but(producer_epoch=3)
    yield "commits nothing by the new epoch", third.end(True, 5)
    yield "aborts nothing by the new epoch", (third.end(False, 5), third.settled())
    fourth = producer.but(producer_epoch=4)
    yield "writes", write(fourth)
    yield "ends as of old", (fourth.end(True, 3), fourth.settled())
    yield "writes on without a new epoch", (write(fourth, 1), fourth.settled())
    yield "ends as of new", (fourth.end(True, 5), fourth.settled())
    yield "known to the partition", _producers(talk, topic, producer)
    yield "ends", ends(talk, topic)


def zombies(talk: Conversation) -> Told:
    """A new instance over an open transaction: each step that a client sees."""
    for kind, version in (("v11", VERIFIED), ("v12", IMPLICIT)):
        topic = talk.create_topic(f"zombies-{kind}")
        first = talk.started(f"zombies {kind}")
        first.add(0, topic=topic)
        yield f"{kind}: the first writes", first.produce(topic=topic, version=version)
        yield f"{kind}: the second arrives", first.renew()
        yield f"{kind}: the open transaction", first.settled()
        yield f"{kind}: the second arrives again", first.renew()
        yield f"{kind}: ends", ends(talk, topic)
        yield f"{kind}: the first writes on", first.produce(topic=topic, sequence=1, version=version)
        yield f"{kind}: the first sends a duplicate", first.produce(topic=topic, version=version)
        yield f"{kind}: the first ends", [first.end(True, end) for end in range(6)]
        yield f"{kind}: the first adds offsets", [first.add_offsets(end) for end in range(5)]
        yield f"{kind}: the first commits offsets", [first.commit_offset(end) for end in range(6)]
        yield f"{kind}: known to the partition", _producers(talk, topic, first)


# --- markers from outside ---------------------------------------------------------------------------------------------


def marker(
    talk: Conversation,
    topic: str,
    producer: Producer,
    *,
    commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    version: int = 1,
    partitions: Sequence[int] = (0,),
) -> list[str]:
    written = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "transaction_result": commit,
        "topics": [(topic, partitions)],
        "coordinator_epoch": coordinator_epoch,
        "transaction_version": transaction_version,
    }
    shape = "markers.0.topics/partitions{partition_index error_code}"
    return [error for _, error in talk.ask("WriteTxnMarkers", version, shape, markers=[written])]


def markers(talk: Conversation) -> Told:
    """WriteTxnMarkers 1, as kafka-transactions.sh abort sends it."""
    topic = talk.create_topic("markers")
    talk.started("markers")
    producer = talk.started("markers")
    producer.add(0, topic=topic)
    yield "a batch", producer.produce(topic=topic)
    yield "an older epoch", marker(talk, topic, producer.but(producer_epoch=0))
    yield "no epoch", marker(talk, topic, producer.but(producer_epoch=-1))
    unknown = [marker(talk, "nowhere", producer), marker(talk, topic, producer, partitions=(9,))]
    yield "unknown places", unknown
    yield "ends, still open", ends(talk, topic)
    yield "abort", marker(talk, topic, producer, coordinator_epoch=5)
    yield "ends, aborted", ends(talk, topic)
    yield "known to the partition", _producers(talk, topic, producer)
    yield "abort again", marker(talk, topic, producer, coordinator_epoch=5)
    yield "an older coordinator", marker(talk, topic, producer, coordinator_epoch=4)
    yield "a newer coordinator", marker(talk, topic, producer, coordinator_epoch=6)
    yield "ends, after markers of nothing", ends(talk, topic)
    yield "a batch of the open transaction", producer.produce(topic=topic, sequence=1)
    yield "ends, opened anew", ends(talk, topic)
    later = producer.but(producer_epoch=producer.producer_epoch + 3)
    yield "a later epoch", marker(talk, topic, later, commit=True, coordinator_epoch=6)
    yield "a batch of the epoch before", producer.produce(topic=topic, sequence=2)
    yield "of an unknown producer", marker(talk, topic, producer.but(producer_id=10**12))
    yield "known to the partition at last", _producers(talk, topic, producer)
    yield "ends", ends(talk, topic)


def markers_by_version(talk: Conversation) -> Told:
    """WriteTxnMarkers 2 says the version of the transaction (KIP-1228)."""
    for transaction_version in (0, 1, 2):
        topic = talk.create_topic(f"markers-{transaction_version}")
        talk.started(f"markers {transaction_version}")
        producer = talk.started(f"markers {transaction_version}")
        producer.add(0, topic=topic)
        producer.produce(topic=topic)
        for step, change in enumerate((-1, 0, 1, 0, 1, 2)):
            changed = producer.but(producer_epoch=producer.producer_epoch + change)
            answer = marker(talk, topic, changed, transaction_version=transaction_version, version=2)
            yield f"version {transaction_version}, step {step}, epoch {change:+}", (answer, ends(talk, topic))
        last = producer.but(producer_epoch=2**15 - 1)
        for attempt in ("once", "twice"):
            answer = marker(talk, topic, last, transaction_version=transaction_version, version=2)
            yield f"version {transaction_version}, the last epoch, {attempt}", (answer, ends(talk, topic))
        yield f"version {transaction_version}, known to the partition", _producers(talk, topic, producer)


# --- operators --------------------------------------------------------------------------------------------------------


def operators(talk: Conversation) -> Told:
    topic = talk.create_topic("operated", 2)
    yield "producers of nothing", _producers(talk, topic)
    yield "producers of an unknown topic", _producers(talk, "nowhere")
    yield "producers of an unknown partition", _producers(talk, topic, partition=9)
    yield "an unknown transaction", talk.settled("unknown to all")
    yield "a transaction without an id", talk.settled("")
    producer = talk.started("operated", transaction_timeout_ms=54_321)
    yield "started", _shown(talk, producer)
    producer.add(1, topic=topic)
    yield "added", _shown(talk, producer)
    producer.produce(1, topic=topic)
    producer.add_offsets()
    yield "with offsets", _shown(talk, producer)
    yield "producers of the other partition", _producers(talk, topic, producer)
    yield "producers", _producers(talk, topic, producer, partition=1)
    producer.ended(True)
    yield "committed", _shown(talk, producer)
    yield "producers, committed", _producers(talk, topic, producer, partition=1)


def _shown(talk: Conversation, producer: Producer) -> Any:
    shape = (
        "error_code transaction_state transaction_timeout_ms transaction_start_time_ms:is_there producer_id:is_its "
        "producer_epoch topics:named topics:len"
    )
    ways = {
        "is_there": lambda start_ms: start_ms > 0,
        "is_its": same(producer.producer_id),
        "named": lambda topics: sorted(
            (each.topic, sorted(each.partitions)) for each in topics if each.topic[0] != "_"
        ),
    }
    return counts(talk.described(producer.transactional_id), shape, **ways)


def listed(talk: Conversation) -> Told:
    """ListTransactions: every filter, alone and together."""
    topic = talk.create_topic("listed")
    talk.started("listed empty")
    opened = talk.started("listed open")
    opened.add(0, topic=topic)
    for commit in (True, False):
        producer = talk.started(f"listed {commit}")
        producer.add(0, topic=topic)
        producer.ended(commit)
    talk.broker.let_pass(300)

    def found(version: int = 2, **filters: Any) -> Any:
        shape = "error_code unknown_state_filters{} transaction_states{transactional_id transaction_state}"
        error, unknown, states = talk.ask("ListTransactions", version, shape, **filters)
        return error, unknown, [state for state in states if state[0].startswith("listed")]

    for version in (0, 1, 2):
        yield f"v{version} all", found(version)
        yield f"v{version} by state", found(version, state_filters=["Ongoing", "CompleteAbort"])
        yield f"v{version} by an unknown state", found(version, state_filters=["Ongoing", "ongoing", "Done"])
        yield f"v{version} by unknown states alone", found(version, state_filters=["Done"])
        yield f"v{version} by producer", found(version, producer_id_filters=[opened.producer_id, 10**12])
        yield f"v{version} by an unknown producer", found(version, producer_id_filters=[10**12])
    for state in ("Dead", "PrepareCommit", "PrepareEpochFence", "Empty", ""):
        yield f"by state {state!r}", found(state_filters=[state])
    for duration_ms in (-2, -1, 0, 100, 10**9):
        yield f"v1 lasting {duration_ms} ms", found(1, duration_filter=duration_ms)
        yield f"v2 lasting {duration_ms} ms and open", found(2, duration_filter=duration_ms, state_filters=["Ongoing"])
    patterns = (None, "", "listed", "listed.*", "^listed (open|empty)$", ".*[eE]$", "(", "[", "\\d", "listed\\s\\w+")
    for pattern in patterns:
        yield f"by the pattern {pattern!r}", found(transactional_id_pattern=pattern)
