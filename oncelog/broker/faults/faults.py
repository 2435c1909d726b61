"""The fault rules of one broker: planted, fired, released, removed.

Owns: the rules in the order they were planted, and the crash. Does not own: what is done when a rule fires (`requests`,
`markers`, `disk`), the broker's state. Invariants
- At each occurrence at most one rule fires: the first that is due. Later ones do not count it.
- A removed rule releases what it holds.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from oncelog.broker.coordinator.transaction.coordinator import TransactionCoordinator
from oncelog.broker.coordinator.transaction.dependencies import TransitionListener
from oncelog.broker.coordinator.transaction.markers import MarkerSender
from oncelog.broker.faults.disk import FaultDisk
from oncelog.broker.faults.error_answers import has_place_for_error
from oncelog.broker.faults.events import Events, TransitionEvents
from oncelog.broker.faults.markers import FaultMarkers
from oncelog.broker.faults.planted import Occurrence, PlantedRule
from oncelog.broker.faults.requests import FaultHandler
from oncelog.broker.faults.rule import Action, Point, Rule, RuleError, api_name
from oncelog.broker.faults.time import MovableTime
from oncelog.broker.requests.context import Handler
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker

MAX_RULES = 1_000


class Faults:
    def __init__(self, system: System, crash: Callable[[], NoReturn], ahead_ms: int = 0) -> None:
        """Wraps `system`; the broker must be assembled on `self.system`, with these faults. `crash` ends the process.
        The wall clock is `ahead_ms` before the machine's: a broker that starts again continues at the time it had."""
        self.crash = crash
        self.time = MovableTime(system.clock, system.scheduler)
        self.time.jump_wall(ahead_ms)
        self.events = Events(self.time)
        self.system = replace(
            system,
            clock=self.time,
            scheduler=self.time,
            disk=FaultDisk(system.disk, self) if system.disk is not None else None,
        )
        self.broker: Broker | None = None
        self._transactions: TransactionCoordinator | None = None
        self._rules: dict[int, PlantedRule] = {}
        self._last_number = 0
        # Whether any rule is planted there: the points check this first.
        self.watches_requests = False
        self.watches_appends = False
        self.watches_markers = False

    # --- rules --------------------------------------------------------------------------------------------------------

    @property
    def rules(self) -> list[PlantedRule]:
        return list(self._rules.values())

    def plant(self, rule: Rule) -> PlantedRule:
        """Raises RuleError if there are too many, or if the API has no field for the error."""
        if len(self._rules) >= MAX_RULES:
            raise RuleError(f"there are already {MAX_RULES} rules: remove some")
        api = rule.of.api
        is_refusal = rule.point is Point.REQUEST and rule.action is Action.ERROR
        if is_refusal and api is not None and not has_place_for_error(api):
            raise RuleError(f"{api_name(api)} has errors per row: let it be handled, and fail it at the point answer")
        self._last_number += 1
        planted = self._rules[self._last_number] = PlantedRule(self._last_number, rule)
        self._update_watching()
        self.events.append("rule planted", rule_number=planted.number, **rule.as_json())
        return planted

    def find(self, number: int) -> PlantedRule | None:
        return self._rules.get(number)

    def remove(self, planted: PlantedRule) -> None:
        """Remove the rule: it fires no more, and everything it holds is released."""
        if self._rules.pop(planted.number, None) is not None:
            self._update_watching()
            self.events.append("rule removed", rule_number=planted.number)
            self.release(planted)

    def remove_all(self) -> None:
        for planted in self.rules:
            self.remove(planted)

    def release(self, planted: PlantedRule, count: int | None = None) -> int:
        """Release what the rule holds, the oldest `count` or all; returns how many."""
        for occurrence in planted.held[:count]:
            self.events.append("released", rule_number=planted.number, **occurrence.as_json())
        return planted.release(count)

    def _update_watching(self) -> None:
        points = {planted.rule.point for planted in self._rules.values()}
        self.watches_requests = not points.isdisjoint((Point.REQUEST, Point.ANSWER))
        self.watches_appends = not points.isdisjoint((Point.APPEND, Point.APPENDED))
        self.watches_markers = not points.isdisjoint((Point.MARKER, Point.MARKER_WRITTEN))

    # --- at the points ------------------------------------------------------------------------------------------------

    def fire(self, occurrence: Occurrence, *, is_append: bool = False) -> PlantedRule | None:
        """Return the rule that is due here, already counted. A crash does not return, except after an append
        (`is_append`): it comes when this turn is over, and leaves the batch committed."""
        for planted in self._rules.values():
            if planted.rule.point is occurrence.point and planted.maybe_fire(occurrence):
                action = planted.rule.action
                self.events.append("fault", rule_number=planted.number, action=action.value, **occurrence.as_json())
                if action is Action.CRASH:
                    if not is_append:
                        self.crash()
                    self.time.call_soon(self._crash_after_append)
                return planted
        return None

    def _crash_after_append(self) -> None:
        # The commit is not reported: high watermarks stay where they are.
        if self.broker is not None:
            self.broker.logs.store.commit_now()
        self.crash()

    def wait(self, planted: PlantedRule, occurrence: Occurrence) -> Completion[None]:
        """Wait for a hold, a delay, or the second run of a duplicate."""
        held = planted.hold(occurrence)

        def on_time() -> None:
            # A rule has one delay, so the oldest held occurrence is the one that is due.
            if not held.done:
                self.release(planted, 1)

        if planted.rule.delay_ms is not None:
            self.time.call_later(planted.rule.delay_ms, on_time)
        return held

    def transactional_ids_of(self, producer_id: int) -> tuple[str, ...]:
        """Return the ids with this producer id that have a transaction that is open or ending."""
        if self._transactions is None:
            return ()
        return tuple(
            status.metadata.transactional_id
            for status in self._transactions.current()
            if status.metadata.producer_id == producer_id
        )

    # --- assembly -----------------------------------------------------------------------------------------------------

    def around_handler(self, _: ApiKey, handle: Handler) -> Handler:
        return FaultHandler(self, handle).handle

    def around_markers(self, markers: MarkerSender) -> MarkerSender:
        return FaultMarkers(self, markers)

    def around_listener(self, listener: TransitionListener) -> TransitionListener:
        return TransitionEvents(self.events, listener)

    def watch(self, transactions: TransactionCoordinator) -> None:
        """Watch the coordinator's transactions; called before it loads, so that its first markers are seen."""
        self._transactions = transactions
