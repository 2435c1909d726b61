"""What work in slices waits for besides a result: some time, or whatever ends first."""

from typing import Any

from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler


def pause(scheduler: Scheduler, delay_ms: float) -> Completion[None]:
    """Completes after that time."""
    passed: Completion[None] = Completion()
    scheduler.call_later(delay_ms, lambda: passed.complete(None))
    return passed


def first_of(*completions: Completion[Any]) -> Completion[None]:
    """Completes once one of them has ended, well or not."""
    first: Completion[None] = Completion()

    def on_end(_: object) -> None:
        if not first.done:
            first.complete(None)

    for each in completions:
        each.then(on_end)
    return first
