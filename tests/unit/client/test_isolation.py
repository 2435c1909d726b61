"""What read_committed hides, against a model that knows every transaction's outcome."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.consuming.isolation import AbortedTransactions
from oncelog.protocol.records.batch import BatchHeader, encode_batch, iter_batches
from oncelog.protocol.records.control import ControlRecordType, encode_end_txn_marker
from oncelog.protocol.records.record import Record


@dataclass
class ModelLog:
    """A partition written by a few producers, each with at most one transaction open."""

    data: bytearray
    next_offset: int
    aborted: list[tuple[int, int, int]]
    """Producer id, first offset, offset of the marker."""
    visible: list[int]
    """Base offsets of what read_committed must show."""


def write(steps: list[tuple[str, int, int]]) -> ModelLog:
    log = ModelLog(bytearray(), 0, [], [])
    opened: dict[int, list[int]] = {}
    for action, producer_id, count in steps:
        if action == "plain":
            log.visible.append(log.next_offset)
            append(log, count, -1)
        elif action == "write":
            opened.setdefault(producer_id, []).append(log.next_offset)
            append(log, count, producer_id)
        elif producer_id in opened:
            batches = opened.pop(producer_id)
            kind = ControlRecordType.COMMIT if action == "commit" else ControlRecordType.ABORT
            if action == "commit":
                log.visible += batches
            else:
                log.aborted.append((producer_id, batches[0], log.next_offset))
            log.data += encode_end_txn_marker(producer_id, 0, kind, 0, 0, base_offset=log.next_offset)
            log.next_offset += 1
    for producer_id in opened:
        log.data += encode_end_txn_marker(producer_id, 0, ControlRecordType.COMMIT, 0, 0, base_offset=log.next_offset)
        log.next_offset += 1
        log.visible += opened[producer_id]
    return log


def append(log: ModelLog, count: int, producer_id: int) -> None:
    log.data += encode_batch(
        [Record(0, 0, None, b"x")] * count,
        base_offset=log.next_offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )
    log.next_offset += count


def shown(log: ModelLog, fetch_offset: int, stop_offset: int) -> list[int]:
    """The offsets that a consumer shows of one Fetch that returns the batches of [fetch_offset, stop_offset)."""
    touching = [
        (producer_id, first) for producer_id, first, last in log.aborted if last >= fetch_offset and first < stop_offset
    ]
    hidden = AbortedTransactions(touching)
    batches: list[tuple[BatchHeader, memoryview]] = [
        each for each in iter_batches(memoryview(log.data)) if fetch_offset <= each[0].base_offset < stop_offset
    ]
    return [header.base_offset for header, batch in batches if not hidden.hides(header, batch)]


steps = st.lists(
    st.tuples(st.sampled_from(("plain", "write", "write", "commit", "abort")), st.integers(1, 3), st.integers(1, 3)),
    max_size=25,
)


@given(steps, st.data())
def test_exactly_what_was_committed_is_shown_wherever_the_fetches_are_cut(
    steps: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    log = write(steps)
    offsets = [header.base_offset for header, _ in iter_batches(memoryview(log.data))]
    cuts = sorted(data.draw(st.sets(st.sampled_from(offsets), max_size=5))) if offsets else []
    edges = [0, *cuts, log.next_offset]
    seen = [each for start, stop in pairwise(edges) for each in shown(log, start, stop)]
    assert seen == sorted(log.visible)
