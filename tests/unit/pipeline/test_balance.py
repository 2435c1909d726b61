"""A balance does not depend on where batches end."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.pipeline.ledger.balance import ALERT_EVERY_CENTS, Balance, add, levels_between

PURCHASES = st.lists(st.tuples(st.integers(0, 3 * ALERT_EVERY_CENTS), st.booleans()))


@given(st.lists(PURCHASES))
def test_batches_of_any_size_give_one_balance_and_the_same_alerts(batches: list[list[tuple[int, bool]]]) -> None:
    balance = Balance()
    levels = []
    for batch in batches:
        after = add(balance, batch)
        levels += levels_between(balance.cents, after.cents)
        balance = after
    purchases = [purchase for batch in batches for purchase in batch]
    late = [cents for cents, is_late in purchases if is_late]
    total = sum(cents for cents, _ in purchases)
    assert balance == (total, len(purchases), sum(late), len(late))
    assert levels == list(range(ALERT_EVERY_CENTS, total + 1, ALERT_EVERY_CENTS))


def test_a_level_is_reached_at_its_cent() -> None:
    assert levels_between(0, ALERT_EVERY_CENTS - 1) == []
    assert levels_between(ALERT_EVERY_CENTS - 1, ALERT_EVERY_CENTS) == [ALERT_EVERY_CENTS]
    assert levels_between(ALERT_EVERY_CENTS, ALERT_EVERY_CENTS) == []
