"""`oncelog cluster`: its nodes, data directories and features.

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`); what the tables in PostgreSQL say of
nodes (`nodes`).
"""

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from oncelog.tools.asking import (
    EXIT_FAILED,
    EXIT_FOUND,
    EXIT_INTERRUPTED,
    NUMBER,
    Answer,
    Session,
    Shown,
    asks,
    pairs,
    planned,
    run_loop,
    show,
    timeout_option,
)
from oncelog.tools.log.where import Dsn, cluster_in_postgres, explained
from oncelog.tools.terminal import fail, say, say_json

if TYPE_CHECKING:
    from oncelog.tools.nodes import NodesTables

T = TypeVar("T")
_MAX_LEVEL = 2**15 - 1
_LOOK_S, _STEP_DOWN_S = 10, 30
_as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@click.group()
def cluster() -> None:
    """Describe the cluster: nodes, data directories, features; which node leads, if it is in PostgreSQL."""


@asks(cluster)
async def describe(session: Session) -> Shown:
    """Show the cluster's id, its nodes and its features.

    Nodes as they advertise themselves; features with their level, and those that are supported.
    """
    found = await session.admin.describe_cluster()
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller_id,
        "nodes": [
            {"node_id": node_id, "host": host, "port": port} for node_id, (host, port) in sorted(found.nodes.items())
        ],
        "features": [
            {"feature": name, "level": found.finalized_features.get(name, 0), "lowest": lowest, "highest": highest}
            for name, (lowest, highest) in sorted(found.supported_features.items())
        ],
    }


@asks(cluster, "log-dirs")
@click.option("--partitions", is_flag=True, help="Each partition, the largest first.")
async def log_dirs(session: Session, partitions: bool) -> Shown:
    """Show the data directories, and how full they are, in bytes."""
    found = await session.admin.describe_log_dirs()
    if partitions:
        sizes = [(size, place, each) for each in found for place, size in each.sizes_bytes.items()]
        return [
            {
                "topic": place.topic,
                "partition": place.partition,
                "bytes": size,
                "node_id": each.node_id,
                "path": each.path,
            }
            for size, place, each in sorted(sizes, key=lambda item: (-item[0], item[1]))
        ]
    return [
        {
            "node_id": each.node_id,
            "path": each.path,
            "partitions": len(each.sizes_bytes),
            "bytes": sum(each.sizes_bytes.values()),
            "total_bytes": each.total_bytes,
            "usable_bytes": each.usable_bytes,
        }
        for each in found
    ]


def _levels(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, int]:
    levels = {}
    for name, level in pairs(context, parameter, texts).items():
        if not level.isdecimal() or int(level) > _MAX_LEVEL:
            raise click.BadParameter(f"{level!r} is not a level: it must be a number up to {_MAX_LEVEL}")
        levels[name] = int(level)
    return levels


@asks(cluster)
@click.option("--feature", "levels", metavar="NAME=LEVEL", multiple=True, required=True, callback=_levels)
@click.option("--downgrade", is_flag=True, help="Lower levels are intended.")
@click.option("--dry-run", is_flag=True, help="Let the cluster check it, and change nothing.")
async def alter(session: Session, levels: dict[str, int], downgrade: bool, dry_run: bool) -> Shown:
    """Finalize features at other levels, all or none.

    Such as transaction.version and group.version.
    """
    await session.admin.update_features(levels, allow_downgrade=downgrade, validate_only=dry_run)
    return planned([{"feature": name, "level": level} for name, level in levels.items()], dry_run)


@cluster.command()
@cluster_in_postgres
@_as_json
def status(dsn: Dsn | None, schema: str, as_json: bool) -> None:
    """Show which node leads, and which stand by.

    For a cluster in PostgreSQL. It reads the tables, and needs no broker to respond. Exits with 1 if no node leads.
    """
    from oncelog.tools.nodes import hint_of, status_of

    found = _with_tables(dsn, schema, _LOOK_S, lambda tables: tables.look())
    show(Answer(status_of(found), hint=hint_of(found), exit_code=0 if found.has_leader else EXIT_FOUND), as_json)


@cluster.command("step-down")
@cluster_in_postgres
@click.option("--to", metavar="NODE", type=NUMBER, help="The node that is to lead.  [default: the best that stands by]")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=float,
    default=_STEP_DOWN_S,
    show_default=True,
    callback=timeout_option,
    help="How long to wait for it.",
)
@_as_json
def step_down(dsn: Dsn | None, schema: str, to: int | None, timeout_s: float, as_json: bool) -> None:
    """Let another node lead, and wait until it does.

    For a cluster in PostgreSQL. The leader finishes what it has begun, and stands by from then on: it may be stopped,
    or upgraded. Clients wait, and go on with the other node. A node that leads already is asked for nothing.
    """
    from oncelog.tools.nodes import CannotStepDown
    from oncelog.tools.nodes import step_down as run

    try:
        done = _with_tables(dsn, schema, None, lambda tables: run(tables, to, timeout_s))
    except CannotStepDown as error:
        fail(f"{error}.", EXIT_FAILED)
    if as_json:
        say_json({"leader": done.leader, "before": done.before, "epoch": done.epoch, "seconds": round(done.took_s, 3)})
    elif done.leader == done.before:
        say(f"Node {done.leader} leads already, in epoch {done.epoch}.")
    else:
        say(
            f"Node {done.leader} leads after {done.took_s:.2f} s, in epoch {done.epoch}. Node {done.before} led before."
        )


def _with_tables(
    dsn: Dsn | None, schema: str, most_s: float | None, work: "Callable[[NodesTables], Awaitable[T]]"
) -> T:
    """Return what `work` returns; it may take `most_s`."""
    import asyncio

    async def call() -> T:
        from oncelog.tools.nodes import nodes_tables

        async with asyncio.timeout(most_s), nodes_tables(dsn, schema) as tables:
            return await work(tables)

    with explained(schema):
        try:
            found: T = run_loop(call())
        except TimeoutError as error:
            raise OSError(f"PostgreSQL does not respond within {most_s:g} s") from error
        except KeyboardInterrupt:
            sys.exit(EXIT_INTERRUPTED)
    return found
