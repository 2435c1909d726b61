"""The auditor passes good histories, and finds every anomaly that is planted in one."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.history.anomalies import ANOMALIES, Anomaly
from tests.history.auditor import RULES, HistoryError, broken, number, require_at_least, tally
from tests.history.good import Life
from tests.support.samples import examples

# A life is hundreds of choices: one seed for all is quicker than to draw each.
_seeds = st.integers(0, 2**32)


@given(_seeds)
def test_a_good_history_breaks_no_invariant(seed: int) -> None:
    history = Life(Random(seed)).run()
    assert broken(history) == {}
    # A life in which nothing happens would prove nothing.
    require_at_least(
        tally(history), commits=2, aborts=2, unknowns=4, restarts=3, reads=30, offsets=6, sends=30, looks=10
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("anomaly", ANOMALIES, ids=lambda anomaly: anomaly.__name__)
@settings(max_examples=examples(20))
@given(seed=_seeds)
def test_a_planted_anomaly_is_found_by_its_invariant(anomaly: Anomaly, seed: int) -> None:
    random = Random(seed)
    history = Life(random).run()
    anomaly(history, random)
    assert ANOMALIES[anomaly] in broken(history)


def test_each_invariant_from_1_to_26_is_a_rule_and_has_an_anomaly() -> None:
    numbers = [f"I{value}" for value in range(1, 27)]
    assert [number(rule) for rule in RULES] == numbers
    assert sorted(set(ANOMALIES.values()), key=lambda name: int(name[1:])) == numbers


def test_a_history_with_too_little_in_it_is_refused() -> None:
    with pytest.raises(HistoryError, match="only 0 kills"):
        require_at_least(tally(Life(Random(1)).run()), kills=1)
