"""The runs of a batch in flight: any offsets may be replaced, and what is the same is one run."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.sharing.in_flight_batch import InFlightBatch
from oncelog.broker.sharing.values import ACKNOWLEDGED, AVAILABLE, Run

FIRST, LAST = 10, 29
offsets = st.integers(FIRST, LAST)
kinds = st.sampled_from([(0, 1), (1, 1), (1, 2), (2, 1), (4, 1)])


@given(st.lists(st.tuples(offsets, offsets, kinds), max_size=30), offsets, offsets)
def test_a_batch_is_what_was_put_into_it(puts: list[tuple[int, int, tuple[int, int]]], low: int, high: int) -> None:
    """Offset for offset, cut to any range; the runs cover it in order, and no two neighbours could be one."""
    batch = InFlightBatch(Run(FIRST, LAST, 1, 1))
    model = dict.fromkeys(range(FIRST, LAST + 1), (1, 1))
    for one, other, kind in puts:
        first, last = min(one, other), max(one, other)
        before = _spread(batch.put(Run(first, last, *kind)))
        assert before == {offset: model[offset] for offset in range(first, last + 1)}
        model |= dict.fromkeys(range(first, last + 1), kind)
    assert _spread(list(batch)) == model
    for left, right in pairwise(batch):
        assert left.last_offset + 1 == right.first_offset
        assert left[2:] != right[2:]
    assert _spread(batch.runs_within(low, high)) == {o: kind for o, kind in model.items() if low <= o <= high}
    unfinished = [offset for offset, (state, _) in model.items() if state < ACKNOWLEDGED and offset >= low]
    assert batch.first_unfinished(low) == min(unfinished, default=-1)
    assert batch.first_available() == min((o for o, (state, _) in model.items() if state == AVAILABLE), default=-1)
    assert batch.is_split == any({one, other} != {FIRST, LAST} for one, other, _ in puts)


def _spread(runs: list[Run]) -> dict[int, tuple[int, int]]:
    return {o: (run.state, run.delivery_count) for run in runs for o in range(run.first_offset, run.last_offset + 1)}
