"""`oncelog copy`: copy topics and group offsets from one cluster to another, each record exactly once.

Owns: the options, the exit codes. Does not own: the work (`copying`), what is printed (`reporting`). Exit codes: 0
done, or stopped with Ctrl-C while it followed; 2 not.
"""

import os
import re
from typing import TYPE_CHECKING, Any

import click

from oncelog.tools.asking import EXIT_FAILED, attempt, probe, run_loop, timeout_option, within
from oncelog.tools.terminal import fail

if TYPE_CHECKING:
    from oncelog.tools.profiles import Target


_PATIENCE_S = 60
"""How long to wait for the source: as long as a transaction of Kafka's own producers may be open
(transaction.timeout.ms)."""


def _patterns(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[Any, ...]:
    try:
        return tuple(re.compile(text) for text in texts)
    except re.error as error:
        raise click.BadParameter(f"{error.pattern!r} is not a regular expression: {error}") from error


@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "-t",
    "--topics",
    metavar="REGEX",
    multiple=True,
    callback=_patterns,
    help="Only topics whose whole name matches; may be repeated.  [default: all but those that begin with __]",
)
@click.option("--exclude", metavar="REGEX", multiple=True, callback=_patterns, help="Not these; may be repeated.")
@click.option("--once", is_flag=True, help="End when everything is copied that was committed at the start.")
@click.option("--switch", is_flag=True, help="Copy until you say that the clients are stopped, then finish for good.")
@click.option("--source-config", metavar="FILE", help="Settings of Kafka's clients for SOURCE: sasl.*, ssl.*")
@click.option("--target-config", metavar="FILE", help="The same for TARGET.")
@click.option("--dry-run", is_flag=True, help="Show what would be copied, and change nothing.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=float,
    callback=timeout_option,
    help=f"For one request, and how long --once or --switch may copy nothing.  [default: 10, and {_PATIENCE_S}]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line, for programs.")
def copy(
    source: str,
    target: str,
    topics: tuple[re.Pattern[str], ...],
    exclude: tuple[re.Pattern[str], ...],
    once: bool,
    switch: bool,
    source_config: str | None,
    target_config: str | None,
    dry_run: bool,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Copy topics and committed offsets of groups from SOURCE to TARGET, and follow what is written there.

    Both are HOST:PORT of any Kafka cluster, or profiles. Only committed records are copied, each once, whatever is
    killed or lost: the command goes on where it was. Partitions, order, timestamps, keys, values and headers stay;
    offsets change, and those of groups are translated. It stops rather than leave something out: if the source has
    deleted what was not copied yet, or a topic was created again.
    """
    from oncelog.tools.copy.copying import Copier
    from oncelog.tools.copy.reporting import Reporter
    from oncelog.tools.copy.survey import CopyError, Side, Wish

    if once and switch:
        raise click.UsageError("choose one: --once or --switch.")
    chosen = _side(source, "SOURCE", timeout_s, source_config), _side(target, "TARGET", timeout_s, target_config)
    reporter = Reporter(target=chosen[1].bootstrap, as_json=as_json)
    sides = [Side(each.bootstrap, each.security) for each in chosen]
    most_s = max(each.timeout_s for each in chosen)
    patience_s = timeout_s or max(_PATIENCE_S, most_s)
    copier = Copier(
        sides[0],
        sides[1],
        Wish(topics, exclude),
        reporter,
        most_s * 1000,
        patience_s if once or switch else None,
    )

    async def work() -> None:
        if dry_run:
            async with within(most_s, chosen[0]):
                found = await copier.preview(ends=once or switch)
            reporter.on_preview(found)
        else:
            with reporter:
                outcome = await copier.run(once=once, switch=switch)
            reporter.on_end(outcome)

    try:
        attempt(lambda: run_loop(work()), chosen[0], follows=not (once or switch))
    except CopyError as error:
        fail(f"{error}.", EXIT_FAILED)


def _side(text: str, name: str, timeout_s: float | None, command_config: str | None) -> "Target":
    """Ends the command unless one of its brokers responds."""
    from oncelog.tools.profiles import ProfileError, named

    try:
        chosen = named(text, name, timeout_s, os.environ, command_config, f"--{name.lower()}-config")
    except ProfileError as error:
        fail(str(error), EXIT_FAILED)
    probe(chosen, EXIT_FAILED)
    return chosen
