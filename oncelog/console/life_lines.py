"""How long transactions have lasted, and how close open ones are to their timeout: pure.

Owns: which transactions have an age, the line from their begin to their timeout, the order of the list, the steps of
one transactional id. Does not own: the requests (`reading`), the meaning of states (`protocol.transaction_states`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oncelog.client.admin.descriptions import ListedTransaction, TransactionDescription
from oncelog.protocol.transaction_states import NO_TIMEOUT_MS, Phase, StateMeaning, meaning_of
from oncelog.tools.txn.tail import Transition

LINE_UNITS = 1_000
_LATE_SHARE = 0.5
"""The share of its timeout after which a transaction is late, half of it: most take a small part of theirs."""


@dataclass(frozen=True, slots=True)
class LifeLine:
    """A transaction that is open, or decided; times in milliseconds. `age_ms` is None while nothing is written."""

    transaction: TransactionDescription
    age_ms: int | None
    units: int
    """The length of its line, out of 1,000 from its begin to its timeout."""
    urgency: str
    """"fresh", "late" (half its timeout is over), or "overdue" (its coordinator will abort it at the next look);
    "decided": no timeout applies any more; "endless": none does, as in a two-phase commit."""

    @property
    def meaning(self) -> StateMeaning:
        return meaning_of(self.transaction.state)


def life_line(transaction: TransactionDescription, now_ms: int) -> LifeLine:
    """Return the line of a transaction. Its begin is by the coordinator's clock: one that is ahead of ours gives an age
    of 0."""
    meaning = meaning_of(transaction.state)
    if transaction.start_time_ms <= 0 or not meaning.holds_readers:
        return LifeLine(transaction, None, 0, "fresh")
    age_ms = max(0, now_ms - transaction.start_time_ms)
    if not meaning.has_timeout:
        return LifeLine(transaction, age_ms, 0, "decided")
    if transaction.timeout_ms == NO_TIMEOUT_MS:
        return LifeLine(transaction, age_ms, 0, "endless")
    share = age_ms / max(1, transaction.timeout_ms)
    urgency = "overdue" if share >= 1 else "late" if share >= _LATE_SHARE else "fresh"
    return LifeLine(transaction, age_ms, min(LINE_UNITS, int(share * LINE_UNITS)), urgency)


def oldest_first(lines: Iterable[LifeLine]) -> list[LifeLine]:
    """Return the lines with the oldest transactions first; those without an age are last."""
    return sorted(lines, key=lambda each: (-1 if each.age_ms is None else -each.age_ms - 2, _id(each)))


def _id(line: LifeLine) -> str:
    return line.transaction.transactional_id


def count_by_state(listed: Iterable[ListedTransaction]) -> dict[str, int]:
    """Open states first, then decided ones, then by name."""
    counts: dict[str, int] = {}
    for each in listed:
        counts[each.state] = counts.get(each.state, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (_rank(item[0]), item[0])))


def count_of(phase: Phase, counts: Mapping[str, int]) -> int:
    """Return how many ids are in a state of this phase."""
    return sum(number for state, number in counts.items() if meaning_of(state).phase == phase)


def _rank(state: str) -> int:
    """Return a state's place in a list: open transactions can still be ended, decided ones only waited for."""
    meaning = meaning_of(state)
    return 0 if meaning.can_be_aborted else 1 if meaning.holds_readers else 2


def matching(listed: Sequence[ListedTransaction], text: str, state: str) -> list[ListedTransaction]:
    """Return the transactions whose id contains `text`, in `state` if that is not empty; open ones first, then decided
    ones."""
    found = [each for each in listed if text in each.transactional_id and state in ("", each.state)]
    return sorted(found, key=lambda each: (_rank(each.state), each.transactional_id))


def newest_first(transitions: Iterable[Transition], count: int) -> list[Transition]:
    """Return the newest transitions of all coordinators' logs, whose records come log by log. Steps of one millisecond
    keep their order."""
    in_order = sorted(transitions, key=lambda each: each.time_ms)
    return in_order[::-1][:count]
