"""The balance of a customer: the state that Spark keeps for each, and the arithmetic of one batch.

Owns: the columns of the state and how purchases change it. `add` is plain Python: the processor around it only fetches
and stores. The state has no expiry: a customer's balance is for ever.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

ALERT_EVERY_CENTS = 50_000
STATE = "cents bigint, purchases bigint, late_cents bigint, late_purchases bigint"
BALANCE = f"customer string, {STATE}, levels array<bigint>"


class Balance(NamedTuple):
    """`late_` counts what is contained in the totals too."""

    cents: int = 0
    purchases: int = 0
    late_cents: int = 0
    late_purchases: int = 0


def add(before: Balance, purchases: Iterable[tuple[int, bool]]) -> Balance:
    """The balance after purchases of (cents, late)."""
    cents, count, late_cents, late_count = before
    for amount, late in purchases:
        cents += amount
        count += 1
        if late:
            late_cents += amount
            late_count += 1
    return Balance(cents, count, late_cents, late_count)


def levels_between(before_cents: int, after_cents: int) -> list[int]:
    """The multiples of `ALERT_EVERY_CENTS` that a balance has reached on its way: one batch may pass several."""
    first = before_cents // ALERT_EVERY_CENTS + 1
    last = after_cents // ALERT_EVERY_CENTS
    return [level * ALERT_EVERY_CENTS for level in range(first, last + 1)]


class BalanceProcessor(StatefulProcessor):
    """For `transformWithState`: rows of `cents` and `late` of one customer in, one row of `BALANCE` out."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("balance", STATE)

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        before = Balance(*(self._state.get() or ()))
        after = add(before, ((row.cents, row.late) for row in rows))
        self._state.update(tuple(after))
        yield Row(customer=key[0], **after._asdict(), levels=levels_between(before.cents, after.cents))

    def close(self) -> None:
        pass
