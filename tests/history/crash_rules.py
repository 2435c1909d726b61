"""I20 to I24: what restarts, lost power and damaged disks may not change, and that all clients finish afterwards."""

from collections.abc import Iterator, Mapping, Sequence

from tests.history.events import FINAL, LogBatch, Partition
from tests.history.facts import Facts


def i20_what_was_acknowledged_before_a_stop_is_there_after_it(facts: Facts) -> Iterator[str]:
    """Stricter than I4: records of aborted transactions too are at the acknowledged offset. What an open transaction
    had written when the power failed may be gone, for it is aborted then.
    """
    for partition, batches in facts.history.logs.items():
        there = {offset: value for batch in batches for offset, value in enumerate(batch.values, batch.base_offset)}
        for send in facts.history.sends:
            is_gone = send.partition == partition and send.span.is_ok and there.get(send.offset) != send.value
            if is_gone and not facts.may_have_been_undone(send):
                yield f"{partition} at {send.offset}: {there.get(send.offset)!r}, and {send.value!r} was acknowledged"


def i21_recovery_twice_is_recovery_once(facts: Facts) -> Iterator[str]:
    for states in facts.history.states:
        if states.is_second_recovery and states.one != states.other:
            yield f"{states.one} and then {states.other}"


def i22_what_is_rebuilt_is_what_was_in_memory(facts: Facts) -> Iterator[str]:
    for states in facts.history.states:
        if not states.is_second_recovery and states.one != states.other:
            yield f"{states.one} became {states.other}"


def i23_damage_is_never_silent(facts: Facts) -> Iterator[str]:
    """A reader that comes across it gets an error, not a log with a hole, nor a shorter one."""
    history = facts.history
    for damage in history.damages:
        for poll in history.polls:
            if poll.partition != damage.partition or poll.span.invoked_at < damage.at or poll.error:
                continue
            if poll.from_offset <= damage.last_offset and poll.next_offset > damage.first_offset:
                got = {offset for offset, _ in poll.records}
                if not got >= set(range(max(poll.from_offset, damage.first_offset), damage.last_offset + 1)):
                    yield f"{poll.reader} went from {poll.from_offset} to {poll.next_offset} of {poll.partition}"
        for bounds in history.bounds:
            is_later = bounds.partition == damage.partition and bounds.span.invoked_at > damage.at
            if is_later and bounds.high_watermark <= damage.last_offset:
                yield f"{bounds.partition} now ends at {bounds.high_watermark}, before {damage.last_offset}"
    yield from _damaged_or_missing(history.logs)


def _damaged_or_missing(logs: Mapping[Partition, Sequence[LogBatch]]) -> Iterator[str]:
    for partition, batches in logs.items():
        next_offset = batches[0].base_offset if batches else 0
        for batch in batches:
            if not batch.is_intact:
                yield f"{partition}: the batch at {batch.base_offset} is damaged"
            if batch.base_offset != next_offset:
                yield f"{partition}: a batch at {batch.base_offset}, where {next_offset} comes next"
            next_offset = batch.last_offset + 1


def i24_everybody_gets_on_after_the_last_fault(facts: Facts) -> Iterator[str]:
    history = facts.history
    for client in history.at_work_at_the_end:
        yield f"{client} did not finish"
    last = {bounds.partition: bounds for bounds in sorted(history.bounds, key=lambda each: each.span.completed_at)}
    ends = {poll.partition: poll.next_offset for poll in history.polls if poll.reader == FINAL and poll.is_committed}
    for partition, bounds in last.items():
        if ends.get(partition, bounds.high_watermark) < bounds.high_watermark:
            yield f"the last reader stands at {ends[partition]} of {partition}, which ends at {bounds.high_watermark}"
