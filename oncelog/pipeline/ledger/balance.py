"""The balance of a customer: plain arithmetic, without Spark.

Owns: what a balance counts, and when it is worth an alert. Invariant: however purchases are split into batches, the
last balance and all levels together are the same.
"""

from collections.abc import Iterable
from typing import NamedTuple

ALERT_EVERY_CENTS = 50_000


class Balance(NamedTuple):
    """A customer's balance. `late_` counts what is contained in the other two as well."""

    cents: int = 0
    purchases: int = 0
    late_cents: int = 0
    late_purchases: int = 0


def add(before: Balance, purchases: Iterable[tuple[int, bool]]) -> Balance:
    """Return the balance after purchases of (cents, late)."""
    cents, count, late_cents, late_count = before
    for amount, late in purchases:
        cents += amount
        count += 1
        if late:
            late_cents += amount
            late_count += 1
    return Balance(cents, count, late_cents, late_count)


def levels_between(before_cents: int, after_cents: int) -> list[int]:
    """Return the multiples of `ALERT_EVERY_CENTS` that a balance has reached on its way: one batch may pass several."""
    first = before_cents // ALERT_EVERY_CENTS + 1
    last = after_cents // ALERT_EVERY_CENTS
    return [level * ALERT_EVERY_CENTS for level in range(first, last + 1)]
