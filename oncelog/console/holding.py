"""Steps of a transaction at which the broker can be held, and released again: through its port for faults.

Owns: the steps that have words here, what holds them now. Does not own: rules and points (`oncelog.faults`), who may
(`security`). Rules that others have planted are counted, and left alone.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, TypeVar

from oncelog.console.query import BadQuery
from oncelog.faults import Action, ApiKey, FaultClient, FaultsRefused, Point, Rule, RuleStatus, Selector
from oncelog.http_port import HttpPort

_T = TypeVar("_T")


class FaultsUnavailable(Exception):
    """Raised if the broker's port for faults does not do what it was asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """A place between two steps of a transaction."""

    name: str
    title: str
    words: str
    """The state of the transaction there: which steps have happened, and which have not."""
    point: Point
    api: ApiKey | None = None

    def rule(self, transactional_id: str | None) -> Rule:
        """Return the rule that holds everything of this id there, or of all ids, until it is let go."""
        return Rule(self.point, Action.HOLD, Selector(api=self.api, transactional_id=transactional_id), times=None)


STEPS = (
    Step(
        "sent",
        "a record is on its way",
        "The producer has sent a record, and the broker has not got it: the log ends before it.",
        Point.REQUEST,
        ApiKey.PRODUCE,
    ),
    Step(
        "asked",
        "the end is asked for",
        "Commit or abort is on its way, and the coordinator has not got it: the transaction is open, and its timeout "
        "runs.",
        Point.REQUEST,
        ApiKey.END_TXN,
    ),
    Step(
        "answered",
        "decided, without a response",
        "The decision is logged, and the response is not sent: the producer does not know. The markers are written "
        "all the same.",
        Point.ANSWER,
        ApiKey.END_TXN,
    ),
    Step(
        "decided",
        "decided, without a marker",
        "The decision is logged, PrepareCommit or PrepareAbort, and cannot change. The marker of each partition is "
        "held, and may be released alone: read_committed readers of the others wait.",
        Point.MARKER,
    ),
    Step(
        "marked",
        "marked, not complete",
        "The marker is in its partition, whose readers continue. The coordinator does not know yet: no CompleteCommit "
        "or CompleteAbort is logged.",
        Point.MARKER_WRITTEN,
    ),
)
"""The steps, in the order in which a transaction reaches them."""
_BY_NAME = {each.name: each for each in STEPS}


@dataclass(frozen=True, slots=True)
class HeldStep:
    """A rule at one of the steps, and what it holds, the oldest first."""

    number: int
    step: Step
    transactional_id: str | None
    """The transactional id; None for all."""
    held: tuple[str, ...]


def held_steps(statuses: list[RuleStatus]) -> list[HeldStep]:
    """Return those rules that hold a step, the newest first: pure."""
    found = []
    for status in statuses:
        transactional_id = status.rule.get("transactional_id")
        step = next((each for each in STEPS if each.rule(transactional_id).as_json() == status.rule), None)
        if step is not None:
            held = tuple(map(_words, status.held))
            found.append(HeldStep(status.number, step, transactional_id, held))
    return found[::-1]


def _words(occurrence: dict[str, Any]) -> str:
    """Return what is held: "marker of orders-0, till"."""
    what = occurrence.get("api") or "marker"
    places = ", ".join(occurrence.get("partitions", ()))
    whose = occurrence.get("transactional_id", "")
    return ", ".join(filter(None, (f"{what} of {places}" if places else what, whose)))


class Holder:
    """Holds steps in one broker. Each method raises FaultsUnavailable."""

    def __init__(self, port: HttpPort, timeout_ms: float) -> None:
        self._client = FaultClient(port.address, timeout_ms / 1000, token=port.token, ca_file=port.ca_file)

    async def steps(self) -> tuple[list[HeldStep], int]:
        """Return the steps that are held, and the number of other rules."""
        statuses = await self._ask(self._client.statuses)
        held = held_steps(statuses)
        return held, len(statuses) - len(held)

    async def hold(self, name: str, transactional_id: str) -> None:
        """Hold a step, unless it is held already. Raises BadQuery for one that there is not."""
        step = _BY_NAME.get(name)
        if step is None:
            raise BadQuery(f"step={name!r} is none of {', '.join(_BY_NAME)}")
        of = transactional_id or None
        held, _ = await self.steps()
        if not any(each.step is step and each.transactional_id == of for each in held):
            await self._ask(lambda: self._client.plant(step.rule(of)))

    async def let_one_on(self, number: int) -> None:
        """Release the request or marker that a rule has held for longest; the rule stays."""
        await self._ask(lambda: self._client.release(number, 1))

    async def let_all_on(self, number: int) -> None:
        """Remove a rule, and release everything that it holds."""
        await self._ask(lambda: self._client.remove(number))

    async def _ask(self, call: Callable[[], _T]) -> _T:
        try:
            return await asyncio.to_thread(call)
        except (FaultsRefused, OSError, HTTPException, ValueError) as error:
            raise FaultsUnavailable(str(error) or type(error).__name__) from error
