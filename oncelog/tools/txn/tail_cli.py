"""`oncelog txn tail`: one line per transition, as it happens.

Owns: options, the line, its colours, the end by Ctrl-C or after --count lines. Does not own: what a transition is
(`oncelog.tools.txn.tail`, imported when the command runs).
"""

import re
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from oncelog.protocol.printable import printable
from oncelog.protocol.transaction_states import STATE_NAMES, meaning_of
from oncelog.tools.asking import attempt, connection_options, reach, run_loop
from oncelog.tools.terminal import Styled, say, say_json, say_row

if TYPE_CHECKING:
    from oncelog.tools.profiles import Target
    from oncelog.tools.txn.tail import Transition

_STATE_WIDTH = max(map(len, STATE_NAMES))
_NAMED_PARTITIONS = 3
_COLOURS = {
    "Ongoing": "yellow",
    "PrepareCommit": "cyan",
    "PrepareAbort": "magenta",
    "CompleteCommit": "green",
    "CompleteAbort": "red",
    "Dead": "bright_black",
    "PrepareEpochFence": "magenta",
}


def _pattern_option(
    _context: click.Context, _parameter: click.Parameter, pattern: str | None
) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern) if pattern is not None else None
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is not a regular expression: {error}") from error


@click.command()
@connection_options
@click.option(
    "--transactional-id-pattern",
    "wanted",
    metavar="REGEX",
    callback=_pattern_option,
    help="Only ids that match completely.",
)
@click.option(
    "--state", "states", type=click.Choice(STATE_NAMES), multiple=True, help="Only transitions into this state."
)
@click.option("--from-beginning", is_flag=True, help="Start with the transitions that the log still has.")
@click.option("--count", metavar="NUMBER", type=click.IntRange(1), help="Stop after this many transitions.")
def tail(
    bootstrap: str | None,
    profile: str | None,
    command_config: str | None,
    timeout_s: float | None,
    as_json: bool,
    wanted: re.Pattern[str] | None,
    states: tuple[str, ...],
    from_beginning: bool,
    count: int | None,
) -> None:
    """Show each transition of each transaction as it is logged.

    Ctrl-C stops it. A line: time, transactional id, producer id and epoch, from → to, how long the transaction has
    lasted, its partitions.
    """
    chosen = reach(bootstrap, profile, timeout_s, command_config)
    following = _follow(chosen, wanted, frozenset(states), from_beginning, count, Printer(as_json))
    attempt(lambda: run_loop(following, follows=True), chosen, follows=True)


async def _follow(
    chosen: "Target",
    wanted: re.Pattern[str] | None,
    states: frozenset[str],
    from_beginning: bool,
    count: int | None,
    printer: "Printer",
) -> None:
    from oncelog.tools.txn.tail import transitions

    def on_ready() -> None:
        say(f"following {chosen.bootstrap}; press Ctrl-C to stop", err=True)

    clients: Any = {"default_api_timeout_ms": chosen.timeout_s * 1000, **chosen.security}
    all_of_them = transitions(chosen.bootstrap, clients, from_beginning=from_beginning, on_ready=on_ready)
    async with aclosing(all_of_them) as followed:  # type: ignore[type-var]
        async for transition in followed:
            if wanted is not None and wanted.fullmatch(transition.transactional_id) is None:
                continue
            if states and transition.state not in states:
                continue
            printer.show(transition)
            if count is not None:
                count -= 1
                if count == 0:
                    return


class Printer:
    """Lines with aligned columns, as far as possible: a longer id shifts the columns after it."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._id_width = 20
        self._producer_width = 8

    def show(self, transition: "Transition") -> None:
        if self._as_json:
            say_json(transition.as_row(), indent=None)
        else:
            say_row(*self.line(transition))

    def line(self, transition: "Transition") -> tuple[str | Styled, ...]:
        """Return the pieces of a line: before the state, the state, after it."""
        producer = f"{transition.producer_id}:{transition.producer_epoch}" if transition.producer_id >= 0 else "-"
        transactional_id = printable(transition.transactional_id)
        self._id_width = max(self._id_width, len(transactional_id))
        self._producer_width = max(self._producer_width, len(producer))
        previous, state = transition.previous_state or "-", transition.state
        rest = f"{_duration(transition.duration_ms):>9}  {_partitions(transition.partitions)}".rstrip()
        if meaning_of(state).phase == "decided":
            rest += f"  {transition.meaning}"
        padding = " " * (_STATE_WIDTH - len(state) + 2) if rest else ""
        before = (
            f"{_time_text(transition.time_ms)}  {transactional_id:<{self._id_width}}  "
            f"{producer:>{self._producer_width}}  {previous:>{_STATE_WIDTH}} → "
        )
        return before, Styled(state, _COLOURS.get(state), state.startswith("Complete")), f"{padding}{rest}"


def _time_text(time_ms: int) -> str:
    try:
        at = datetime.fromtimestamp(time_ms / 1000).astimezone()
    except (OverflowError, OSError, ValueError):  # outside the range of years that the calendar has
        return f"{time_ms} ms"
    return f"{at:%H:%M:%S}.{time_ms % 1000:03}"


def _duration(duration_ms: int | None) -> str:
    return "" if duration_ms is None else f"{duration_ms / 1000:.3f} s"


def _partitions(names: tuple[str, ...]) -> str:
    more = len(names) - _NAMED_PARTITIONS
    return ", ".join(names[:_NAMED_PARTITIONS]) + (f" and {more} more" if more > 0 else "")
