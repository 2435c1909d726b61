"""An active rule: what has matched, what has fired, what it holds.

Owns: the counts and what is held. Does not own: which of several rules fires first, notifications (`faults`).
Invariant: held occurrences are released in order of arrival, each once, and all of them when the rule is removed.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.broker.faults.rule import Action, Point, Rule, Selector, api_name
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.api_keys import ApiKey

KEPT_ANSWERS = 100


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event at a point, with the values that rules select by."""

    point: Point
    api: ApiKey | None = None
    api_version: int = -1
    client_id: str | None = None
    transactional_ids: Sequence[str] = ()
    partitions: Sequence[tuple[str, int]] = ()
    state: str | None = None

    def fits(self, of: Selector) -> bool:
        return (
            (of.api is None or of.api is self.api)
            and (of.client_id is None or of.client_id == self.client_id)
            and (of.transactional_id is None or of.transactional_id in self.transactional_ids)
            and (of.state is None or of.state == self.state)
            and (
                (of.topic is None and of.partition is None)
                or any(
                    of.topic in (None, topic) and of.partition in (None, partition)
                    for topic, partition in self.partitions
                )
            )
        )

    def as_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {"point": self.point.value}
        if self.api is not None:
            values |= {"api": api_name(self.api), "api_version": self.api_version, "client_id": self.client_id}
        if self.transactional_ids:
            values["transactional_id"] = self.transactional_ids[0]
        if self.partitions:
            values["partitions"] = [f"{topic}-{partition}" for topic, partition in self.partitions]
        if self.state is not None:
            values["state"] = self.state
        return values


@dataclass(frozen=True, slots=True)
class Held:
    """An occurrence that a rule holds, until `release`."""

    occurrence: Occurrence
    release: Completion[None]


class PlantedRule:
    __slots__ = ("_held", "answers_of_copies", "fired_count", "matched_count", "number", "rule")

    def __init__(self, number: int, rule: Rule) -> None:
        self.number = number
        self.rule = rule
        self.matched_count = 0
        self.fired_count = 0
        self.answers_of_copies: deque[str] = deque(maxlen=KEPT_ANSWERS)
        """The result of the second run of each duplicate: an error's name, or NONE."""
        self._held: deque[Held] = deque()

    @property
    def is_consumed(self) -> bool:
        """Whether it will not fire again."""
        return self.rule.times is not None and self.fired_count >= self.rule.times

    @property
    def held(self) -> list[Occurrence]:
        return [held.occurrence for held in self._held]

    def maybe_fire(self, occurrence: Occurrence) -> bool:
        """Count the occurrence; returns whether the rule is due."""
        if self.is_consumed or not occurrence.fits(self.rule.of):
            return False
        self.matched_count += 1
        if self.matched_count < self.rule.nth:
            return False
        self.fired_count += 1
        return True

    def hold(self, occurrence: Occurrence) -> Completion[None]:
        held = Held(occurrence, Completion())
        self._held.append(held)
        return held.release

    def release(self, count: int | None = None) -> int:
        """Release the oldest `count`, or all; returns how many. Occurrences that this causes and the rule holds too,
        stay."""
        wanted = len(self._held) if count is None else min(count, len(self._held))
        for held in [self._held.popleft() for _ in range(wanted)]:
            held.release.complete(None)
        return wanted

    def as_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "number": self.number,
            "rule": self.rule.as_json(),
            "matched": self.matched_count,
            "fired": self.fired_count,
            "is_consumed": self.is_consumed,
            "held": [occurrence.as_json() for occurrence in self.held],
        }
        if self.rule.action is Action.DUPLICATE:
            values["answers_of_copies"] = list(self.answers_of_copies)
        return values
