"""Mistakes to plant in a good history, each with the invariants that must find it.

Owns: the list. Each changes a response or an observation, as a broker with that fault would have.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TypeVar

from tests.history.events import (
    FINAL,
    Bounds,
    Damage,
    End,
    Generation,
    GroupCommit,
    History,
    Init,
    LogBatch,
    Look,
    OffsetFetch,
    Outcome,
    Poll,
    Send,
    Span,
)
from tests.history.facts import Facts, Transaction
from tests.history.good import GROUP, INPUT, LEGS, OUTPUT, WORN

Anomaly = Callable[[History, Random], None]
Item = TypeVar("Item")


def _swap(items: list[Item], old: Item, new: Item) -> None:
    items[next(place for place, item in enumerate(items) if item is old)] = new


def _transactions(history: History, *, committed: bool) -> list[Transaction]:
    """Return the transactions of transfers whose outcome the clients know."""
    return [
        each
        for each in Facts(history).transactions.values()
        if len(each.sends) == len(LEGS) and (each.is_told_committed if committed else each.is_told_aborted)
    ]


def _finals(history: History, *, committed: bool = True) -> list[Poll]:
    return [poll for poll in history.polls if poll.reader == FINAL and poll.is_committed == committed and poll.records]


def _unread(history: History, send: Send, *, readers: str = "") -> None:
    """Remove the record from the polls of readers, as if it had never been there."""
    for poll in list(history.polls):
        if poll.partition == send.partition and (not readers or poll.reader == readers):
            kept = tuple(record for record in poll.records if record[1] != send.value)
            _swap(history.polls, poll, replace(poll, records=kept))


def _late(history: History) -> Span:
    """An operation that comes after all others."""
    spans = [poll.span for poll in history.polls] + [bounds.span for bounds in history.bounds]
    at = max(span.completed_at for span in spans) + 1
    return Span(at, at + 1, Outcome.OK)


# --- the log ----------------------------------------------------------------------------------------------------------


def a_value_that_changes(history: History, random: Random) -> None:
    poll = random.choice(_finals(history))
    (offset, _), *rest = poll.records
    _swap(history.polls, poll, replace(poll, records=((offset, b"something else"), *rest)))


def an_invented_value(history: History, random: Random) -> None:
    poll = random.choice(_finals(history))
    records = ((poll.next_offset, b"nobody's"),)
    late = replace(poll, span=_late(history), reader="late", from_offset=poll.next_offset, records=records)
    history.polls.append(replace(late, next_offset=poll.next_offset + 1))


def a_value_of_another_partition(history: History, random: Random) -> None:
    poll = next(poll for poll in _finals(history) if poll.partition == LEGS[0])
    _swap(history.polls, poll, replace(poll, partition=LEGS[1]))


def a_duplicated_write(history: History, random: Random) -> None:
    poll = random.choice(_finals(history))
    _, value = random.choice(poll.records)
    again = replace(poll, next_offset=poll.next_offset + 1, records=(*poll.records, (poll.next_offset, value)))
    _swap(history.polls, poll, again)


def a_lost_write(history: History, random: Random) -> None:
    send = random.choice([send for send in history.sends if send.session == "feeder" and send.partition == INPUT])
    _unread(history, send)


def a_lost_commit(history: History, random: Random) -> None:
    for send in random.choice(_transactions(history, committed=True)).sends:
        _unread(history, send)


def a_reordered_session(history: History, random: Random) -> None:
    """Swap two records of a session in the log, so that all readers agree."""
    turned = {b"input-1": b"input-2", b"input-2": b"input-1"}
    for poll in list(history.polls):
        records = tuple((offset, turned.get(value, value)) for offset, value in poll.records)
        _swap(history.polls, poll, replace(poll, records=records))
    batches = history.logs[INPUT]
    batches[:] = [replace(batch, values=tuple(turned.get(value, value) for value in batch.values)) for batch in batches]


def a_high_watermark_going_back(history: History, random: Random) -> None:
    last = history.bounds[-2]
    at = _late(history)
    low = last.high_watermark - 1
    history.bounds.append(replace(last, span=at, high_watermark=low, last_stable_offset=min(low, 0)))


def a_last_stable_offset_going_back(history: History, random: Random) -> None:
    last = random.choice([each for each in history.bounds if each.last_stable_offset > 0])
    history.bounds.append(replace(last, span=_late(history), last_stable_offset=last.last_stable_offset - 1))


def a_last_stable_offset_beyond_the_high_watermark(history: History, random: Random) -> None:
    bounds = random.choice(history.bounds)
    _swap(history.bounds, bounds, replace(bounds, last_stable_offset=bounds.high_watermark + 1))


def an_acknowledgement_before_it_is_durable(history: History, random: Random) -> None:
    ended = [each for each in _transactions(history, committed=True) if each.is_told_committed]
    transaction = random.choice([each for each in ended if any(send.partition in LEGS for send in each.sends)])
    send = random.choice([send for send in transaction.sends if send.partition in LEGS])
    at = max(end.span.completed_at for end in transaction.ends if end.span.is_ok)
    soon = Span(at + 1, at + 1, Outcome.OK)
    history.bounds.append(Bounds(soon, send.partition, 0, 0, send.offset))


def a_leader_epoch_going_back(history: History, random: Random) -> None:
    last = history.leading[-1]
    history.leading.append(replace(last, span=_late(history), epoch=last.epoch - 1, start=None))


def a_start_with_the_leader_epoch_of_the_one_before(history: History, random: Random) -> None:
    last = random.choice(history.leading)
    history.leading.append(replace(last, start=len(history.restarts) + 1))


def a_record_of_an_old_leader_epoch(history: History, random: Random) -> None:
    batches = history.logs[random.choice(LEGS)]
    batches[-1] = replace(batches[-1], leader_epoch=batches[-2].leader_epoch - 1)


# --- isolation --------------------------------------------------------------------------------------------------------


def a_dirty_read(history: History, random: Random) -> None:
    """G1a."""
    send = random.choice(random.choice(_transactions(history, committed=False)).sends)
    poll = next(poll for poll in _finals(history) if poll.partition == send.partition)
    records = tuple(sorted((*poll.records, (send.offset, send.value))))
    _swap(history.polls, poll, replace(poll, records=records))


def a_read_before_the_commit(history: History, random: Random) -> None:
    """G1b."""
    transaction = random.choice(_transactions(history, committed=True))
    send, at = transaction.sends[0], transaction.sends[0].span.completed_at
    span = Span(at, at, Outcome.OK)
    record = send.offset, send.value
    history.polls.append(Poll(span, "early", True, send.partition, send.offset, send.offset + 1, (record,)))


def a_reader_beyond_an_open_transaction(history: History, random: Random) -> None:
    transaction = random.choice(_transactions(history, committed=True))
    send = transaction.sends[0]
    span = Span(send.span.completed_at + 1, transaction.ends[0].span.invoked_at - 1, Outcome.OK)
    history.polls.append(Poll(span, "hasty", True, send.partition, send.offset, send.offset + 1, ()))


def a_read_of_ones_own_writes(history: History, random: Random) -> None:
    poll = next(poll for poll in _finals(history) if poll.partition == LEGS[0])
    transaction = Facts(history).transaction_of(poll.partition, poll.records[0][1])
    _swap(history.polls, poll, replace(poll, transaction=transaction.name if transaction else None))


def a_torn_commit(history: History, random: Random) -> None:
    """One partition of two has it."""
    _unread(history, random.choice(random.choice(_transactions(history, committed=True)).sends))


def a_torn_commit_of_unknown_outcome(history: History, random: Random) -> None:
    facts = Facts(history)
    transaction = random.choice(
        [each for each in facts.transactions.values() if each.was_seen and not each.is_told_committed]
    )
    _unread(history, transaction.sends[1])


def a_cycle_of_reads(history: History, random: Random) -> None:
    one, other = random.sample(_transactions(history, committed=True), 2)
    for reading, written in ((one, other), (other, one)):
        send = written.sends[0]
        span = _late(history)
        record = ((send.offset, send.value),)
        history.polls.append(
            Poll(span, reading.name, True, send.partition, send.offset, send.offset + 1, record, reading.name)
        )


def a_skipped_record(history: History, random: Random) -> None:
    poll = random.choice([poll for poll in history.polls if poll.reader == "reader-uncommitted" and poll.records])
    kept = list(poll.records)
    kept.pop(random.randrange(len(kept)))
    _swap(history.polls, poll, replace(poll, records=tuple(kept)))


def a_jump_of_the_position(history: History, random: Random) -> None:
    poll = random.choice([poll for poll in history.polls if poll.reader == "reader-committed" and poll.records])
    _swap(history.polls, poll, replace(poll, next_offset=poll.next_offset + 1))
    history.polls.append(replace(poll, span=_late(history), from_offset=poll.next_offset, records=()))


def a_committed_record_hidden_from_read_uncommitted(history: History, random: Random) -> None:
    poll = next(poll for poll in _finals(history, committed=False) if poll.partition == INPUT)
    _swap(history.polls, poll, replace(poll, records=poll.records[1:]))


# --- offsets and groups -----------------------------------------------------------------------------------------------


def _offset_of(history: History, *, committed: bool) -> OffsetFetch | None:
    """A look at the offset of a transaction, at its end."""
    for transaction in Facts(history).transactions.values():
        if transaction.offsets and (transaction.is_told_committed if committed else transaction.is_told_aborted):
            each = transaction.offsets[0]
            span = transaction.ends[0].span
            return OffsetFetch(
                Span(span.completed_at + 1, span.completed_at + 1, Outcome.OK), each.group, each.partition, each.offset
            )
    return None


def a_pending_offset_that_is_visible(history: History, random: Random) -> None:
    found = _offset_of(history, committed=True)
    if found is not None:
        early = Span(0, 0, Outcome.OK)
        history.offset_fetches.insert(0, replace(found, span=early))


def an_offset_that_nobody_committed(history: History, random: Random) -> None:
    last = history.offset_fetches[-1]
    _swap(history.offset_fetches, last, replace(last, offset=last.offset + 100))


def a_committed_offset_that_is_forgotten(history: History, random: Random) -> None:
    found = _offset_of(history, committed=True)
    if found is not None:
        history.offset_fetches.append(replace(found, offset=-1))


def an_offset_that_goes_back(history: History, random: Random) -> None:
    history.offset_fetches.append(OffsetFetch(_late(history), "pair", LEGS[0], 1))


def _last_offset(history: History, change: int) -> None:
    last = max((each for each in history.offset_fetches if each.group == GROUP), key=lambda each: each.span.invoked_at)
    _swap(history.offset_fetches, last, replace(last, offset=last.offset + change))


def offsets_without_outputs(history: History, random: Random) -> None:
    _last_offset(history, 1 if len(Facts(history).final[INPUT]) > history.offset_fetches[-1].offset else -1)


def outputs_without_offsets(history: History, random: Random) -> None:
    _last_offset(history, -1)


def an_input_processed_twice(history: History, random: Random) -> None:
    poll = next(poll for poll in _finals(history) if poll.partition == OUTPUT)
    first = next(send for send in history.sends if (send.partition, send.value) == (OUTPUT, poll.records[0][1]))
    again = replace(first, value=first.value + b"|again", span=_late(history), offset=poll.next_offset, sequence=-1)
    history.sends.append(replace(again, transaction=None))
    records = (*poll.records, (poll.next_offset, again.value))
    _swap(history.polls, poll, replace(poll, next_offset=poll.next_offset + 1, records=records))


def two_owners_of_a_partition(history: History, random: Random) -> None:
    seen = random.choice(history.generations)
    history.generations.append(Generation(seen.at + 1, seen.group, seen.generation, "carl", seen.owns))


def a_commit_of_an_old_generation(history: History, random: Random) -> None:
    history.group_commits.append(GroupCommit(_late(history), "pair", LEGS[0], 3, "ann", generation=1))


def transactional_offsets_of_an_old_generation(history: History, random: Random) -> None:
    at = random.choice(history.send_offsets).span.invoked_at
    history.generations.append(Generation(at - 1, GROUP, 2, "newer", ()))


# --- the coordinator --------------------------------------------------------------------------------------------------


def _refused(history: History) -> tuple[Send, End]:
    """Return the send and the end that a fenced producer has tried."""
    return (
        next(send for send in history.sends if send.span.outcome is Outcome.FAILED),
        next(end for end in history.ends if end.span.outcome is Outcome.FAILED),
    )


def a_fenced_write(history: History, random: Random) -> None:
    send, _ = _refused(history)
    _swap(history.sends, send, replace(send, span=replace(send.span, outcome=Outcome.OK), offset=10_000))


def a_fenced_commit(history: History, random: Random) -> None:
    _, end = _refused(history)
    _swap(history.ends, end, replace(end, span=replace(end.span, outcome=Outcome.OK)))


def a_fenced_write_that_is_visible(history: History, random: Random) -> None:
    send, _ = _refused(history)
    poll = next(poll for poll in _finals(history) if poll.partition == send.partition)
    records = (*poll.records, (poll.next_offset, send.value))
    _swap(history.polls, poll, replace(poll, next_offset=poll.next_offset + 1, records=records))


def an_epoch_given_twice(history: History, random: Random) -> None:
    first = random.choice(history.inits)
    history.inits.append(Init(_late(history), "later", first.transactional_id, first.identity))


def a_producer_id_with_two_owners(history: History, random: Random) -> None:
    first = random.choice(history.inits)
    history.inits.append(Init(_late(history), "thief", "another id", (first.identity[0], first.identity[1] + 100)))


def an_epoch_going_back_at_the_end_of_a_transaction(history: History, random: Random) -> None:
    end = random.choice([end for end in history.ends if end.span.is_ok])
    _swap(history.ends, end, replace(end, next_identity=(end.identity[0], end.identity[1] - 1)))


def _turn(history: History, value: bytes, send: Send) -> None:
    """The other kind of marker behind this record."""
    batches = history.logs[send.partition]
    at = next(place for place, batch in enumerate(batches) if value in batch.values)
    for place in range(at + 1, len(batches)):
        if batches[place].marker is not None and batches[place].identity[0] == send.identity[0]:
            batches[place] = replace(batches[place], marker=not batches[place].marker)
            return


def a_marker_that_says_the_opposite(history: History, random: Random) -> None:
    send = random.choice(random.choice(_transactions(history, committed=random.random() < 0.5)).sends)
    _turn(history, send.value, send)


def a_step_that_no_coordinator_takes(history: History, random: Random) -> None:
    place = random.choice([place for place, step in enumerate(history.steps) if step.state == "PREPARE_COMMIT"])
    history.steps[place] = replace(history.steps[place], state="PREPARE_ABORT")


def an_epoch_that_goes_back_in_the_log(history: History, random: Random) -> None:
    step = history.steps[-1]
    history.steps.append(replace(step, state="EMPTY", identity=(step.identity[0], step.identity[1] - 1)))


def a_decision_taken_twice(history: History, random: Random) -> None:
    end = random.choice(_transactions(history, committed=True)).ends[0]
    history.ends.append(replace(end, span=_late(history), is_commit=False))


def a_hanging_transaction(history: History, random: Random) -> None:
    batches = history.logs[random.choice(LEGS)]
    place = max(place for place, batch in enumerate(batches) if batch.marker is not None)
    identity = batches[place].identity
    batches[place] = LogBatch(batches[place].base_offset, batches[place].last_offset, identity, -1, True, ())
    batches[place + 1 :] = [batch for batch in batches[place + 1 :] if batch.identity[0] != identity[0]]


def a_transaction_that_is_listed_as_open(history: History, random: Random) -> None:
    history.open_at_the_end.append("one")


def a_last_stable_offset_that_stays_behind(history: History, random: Random) -> None:
    last = [each for each in history.bounds if each.partition == LEGS[0]][-1]
    _swap(history.bounds, last, replace(last, high_watermark=last.high_watermark + 1))


def a_timeout_that_is_forgotten(history: History, random: Random) -> None:
    send = random.choice(random.choice(_transactions(history, committed=False)).sends)
    for place, batch in enumerate(history.logs[send.partition]):
        if batch.marker is not None and batch.identity[0] == send.identity[0]:
            history.logs[send.partition][place] = replace(batch, timestamp_ms=batch.timestamp_ms + 10_000_000)


def a_retry_answered_with_another_offset(history: History, random: Random) -> None:
    again = next(send for send in reversed(history.sends) if send.value == b"input-3")
    _swap(history.sends, again, replace(again, offset=again.offset + 1))


def a_gap_in_the_sequence(history: History, random: Random) -> None:
    batches = history.logs[INPUT]
    place = random.randrange(1, len(batches))
    batches[place] = replace(batches[place], base_sequence=batches[place].base_sequence + 1)


# --- crashes and disks ------------------------------------------------------------------------------------------------


def an_acknowledged_record_gone_after_a_stop(history: History, random: Random) -> None:
    history.logs[INPUT].pop()


def another_record_at_the_acknowledged_offset(history: History, random: Random) -> None:
    """Replace a record of an aborted transaction, which no reader would notice."""
    send = random.choice(random.choice(_transactions(history, committed=False)).sends)
    batches = history.logs[send.partition]
    place = next(place for place, batch in enumerate(batches) if send.value in batch.values)
    batches[place] = replace(batches[place], values=(b"another",))


def a_recovery_that_changes_what_it_recovered(history: History, random: Random) -> None:
    states = random.choice([each for each in history.states if each.is_second_recovery])
    _swap(history.states, states, replace(states, other="another state"))


def a_state_that_a_restart_has_changed(history: History, random: Random) -> None:
    states = random.choice([each for each in history.states if not each.is_second_recovery])
    _swap(history.states, states, replace(states, other="another state"))


def a_reader_led_over_damage(history: History, random: Random) -> None:
    values = tuple((offset, b"worn-%d" % offset) for offset in (0, 2))
    history.polls.append(Poll(_late(history), "trusting", True, WORN, 0, 3, values))


def a_log_cut_before_its_damage(history: History, random: Random) -> None:
    history.bounds.append(Bounds(_late(history), WORN, 0, 1, 1))


def damage_without_a_word(history: History, random: Random) -> None:
    batches = history.logs[INPUT]
    place = random.randrange(len(batches))
    batches[place] = replace(batches[place], is_intact=False)


def a_gap_in_the_log(history: History, random: Random) -> None:
    history.logs[INPUT].pop(random.randrange(1, len(history.logs[INPUT]) - 1))


def a_transaction_seen_in_one_partition_alone(history: History, random: Random) -> None:
    first, second = (
        {batch.timestamp_ms: batch.base_offset for batch in history.logs[leg] if batch.marker is not None}
        for leg in LEGS
    )
    at = random.choice(sorted(first.keys() & second.keys()))
    history.looks.append(Look(((LEGS[0], first[at] + 1), (LEGS[1], second[at]))))


def a_client_that_never_gets_on(history: History, random: Random) -> None:
    history.at_work_at_the_end.append("processor")


def a_last_read_that_never_comes_to_the_end(history: History, random: Random) -> None:
    poll = next(poll for poll in _finals(history) if poll.partition == INPUT)
    _swap(history.polls, poll, replace(poll, next_offset=poll.next_offset - 1, records=poll.records[:-1]))


def damage_is_read_at_all(history: History, random: Random) -> None:
    """Start the log behind the damaged record, as if the record had never been there."""
    history.damages.append(Damage(0, INPUT, 0, 0))
    for poll in list(history.polls):
        if poll.partition == INPUT and poll.records and poll.records[0][0] == 0:
            _swap(history.polls, poll, replace(poll, records=poll.records[1:]))


ANOMALIES: dict[Anomaly, str] = {
    a_value_that_changes: "I1",
    an_invented_value: "I2",
    a_value_of_another_partition: "I2",
    a_duplicated_write: "I3",
    a_lost_write: "I4",
    a_lost_commit: "I4",
    a_reordered_session: "I5",
    a_high_watermark_going_back: "I6",
    a_last_stable_offset_going_back: "I6",
    a_last_stable_offset_beyond_the_high_watermark: "I6",
    an_acknowledgement_before_it_is_durable: "I6",
    a_leader_epoch_going_back: "I25",
    a_start_with_the_leader_epoch_of_the_one_before: "I25",
    a_record_of_an_old_leader_epoch: "I25",
    a_dirty_read: "I7",
    a_read_before_the_commit: "I8",
    a_reader_beyond_an_open_transaction: "I8",
    a_read_of_ones_own_writes: "I8",
    a_torn_commit: "I9",
    a_torn_commit_of_unknown_outcome: "I9",
    a_cycle_of_reads: "I10",
    a_transaction_seen_in_one_partition_alone: "I26",
    a_skipped_record: "I11",
    a_jump_of_the_position: "I11",
    a_committed_record_hidden_from_read_uncommitted: "I11",
    a_pending_offset_that_is_visible: "I12",
    an_offset_that_nobody_committed: "I12",
    a_committed_offset_that_is_forgotten: "I12",
    an_offset_that_goes_back: "I12",
    offsets_without_outputs: "I13",
    outputs_without_offsets: "I13",
    an_input_processed_twice: "I13",
    two_owners_of_a_partition: "I14",
    a_commit_of_an_old_generation: "I14",
    transactional_offsets_of_an_old_generation: "I14",
    a_fenced_write: "I15",
    a_fenced_commit: "I15",
    a_fenced_write_that_is_visible: "I15",
    an_epoch_given_twice: "I16",
    a_producer_id_with_two_owners: "I16",
    an_epoch_going_back_at_the_end_of_a_transaction: "I16",
    a_marker_that_says_the_opposite: "I17",
    a_decision_taken_twice: "I17",
    a_step_that_no_coordinator_takes: "I17",
    an_epoch_that_goes_back_in_the_log: "I17",
    a_hanging_transaction: "I18",
    a_transaction_that_is_listed_as_open: "I18",
    a_last_stable_offset_that_stays_behind: "I18",
    a_timeout_that_is_forgotten: "I18",
    a_retry_answered_with_another_offset: "I19",
    a_gap_in_the_sequence: "I19",
    an_acknowledged_record_gone_after_a_stop: "I20",
    another_record_at_the_acknowledged_offset: "I20",
    a_recovery_that_changes_what_it_recovered: "I21",
    a_state_that_a_restart_has_changed: "I22",
    a_reader_led_over_damage: "I23",
    a_log_cut_before_its_damage: "I23",
    damage_without_a_word: "I23",
    a_gap_in_the_log: "I23",
    damage_is_read_at_all: "I23",
    a_client_that_never_gets_on: "I24",
    a_last_read_that_never_comes_to_the_end: "I24",
}
