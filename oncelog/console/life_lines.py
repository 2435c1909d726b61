"""How long transactions have been open, and how close each is to its timeout: pure.

Owns: which transactions have an age, the line from their begin to their timeout, the order of the list, the steps of
one transactional id. Does not own: the requests (`reading`), the words for states (Kafka's).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oncelog.broker.coordinator.transaction.states import AT_REST
from oncelog.client.descriptions import ListedTransaction, TransactionDescription
from oncelog.tools.txn.tail import Transition

LINE_UNITS = 1_000
AT_REST_NAMES = frozenset(state.kafka_name for state in AT_REST)
_LATE_SHARE = 0.5
"""Half of its timeout: most transactions take a small part of theirs."""


@dataclass(frozen=True, slots=True)
class LifeLine:
    """An open transaction; times in milliseconds. `age_ms` is None while nothing is written."""

    transaction: TransactionDescription
    age_ms: int | None
    units: int
    """Of 1,000 between its begin and its timeout."""
    urgency: str
    """"fresh", "late" (half its timeout is over), or "overdue" (its coordinator will abort it at the next look)."""


def is_open(state: str) -> bool:
    """Whether a transaction in this state holds partitions open."""
    return state not in AT_REST_NAMES


def life_line(transaction: TransactionDescription, now_ms: int) -> LifeLine:
    """The begin is by the coordinator's clock: one that is ahead of ours gives an age of 0."""
    if transaction.start_time_ms <= 0 or not is_open(transaction.state):
        return LifeLine(transaction, None, 0, "fresh")
    age_ms = max(0, now_ms - transaction.start_time_ms)
    share = age_ms / max(1, transaction.timeout_ms)
    urgency = "overdue" if share >= 1 else "late" if share >= _LATE_SHARE else "fresh"
    return LifeLine(transaction, age_ms, min(LINE_UNITS, int(share * LINE_UNITS)), urgency)


def oldest_first(lines: Iterable[LifeLine]) -> list[LifeLine]:
    """Those without an age last."""
    return sorted(lines, key=lambda each: (-1 if each.age_ms is None else -each.age_ms - 2, _id(each)))


def _id(line: LifeLine) -> str:
    return line.transaction.transactional_id


def count_by_state(listed: Iterable[ListedTransaction]) -> dict[str, int]:
    """Open states first, then by name."""
    counts: dict[str, int] = {}
    for each in listed:
        counts[each.state] = counts.get(each.state, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (not is_open(item[0]), item[0])))


def matching(listed: Sequence[ListedTransaction], text: str, state: str) -> list[ListedTransaction]:
    """Those whose id contains `text`, in `state` if that is not empty; open ones first."""
    found = [each for each in listed if text in each.transactional_id and state in ("", each.state)]
    return sorted(found, key=lambda each: (not is_open(each.state), each.transactional_id))


def newest_first(transitions: Iterable[Transition], count: int) -> list[Transition]:
    """Of all coordinators' logs, whose records come log by log. Steps of one millisecond keep their order."""
    in_order = sorted(transitions, key=lambda each: each.time_ms)
    return in_order[::-1][:count]
