"""What is compared in the end: each transfer that was committed, and each account."""

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tally:
    """One place, beside what the bank has committed."""

    place: str
    transfers: int
    missing: int
    doubled: int
    not_committed: int
    """Transfers that the bank has rolled back, or never made."""
    wrong_accounts: int | None
    """Accounts whose balance is another than the bank's; None where there are none."""
    wrong_cents: int | None
    """The sum of the differences of those balances; None where there are none."""

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.doubled or self.not_committed or self.wrong_accounts)


def tally(
    place: str,
    committed: Set[int],
    copies: Counter[int],
    balances: tuple[Mapping[int, int], Mapping[int, int]] | None = None,
) -> Tally:
    """Compare the copies of each transfer, and the place's `balances` with the bank's."""
    off = None if balances is None else [abs(balances[0][each] - cents) for each, cents in balances[1].items()]
    return Tally(
        place,
        transfers=copies.total(),
        missing=len(committed - copies.keys()),
        doubled=sum(each - 1 for each in copies.values()),
        not_committed=len(copies.keys() - committed),
        wrong_accounts=None if off is None else sum(map(bool, off)),
        wrong_cents=None if off is None else sum(off),
    )
