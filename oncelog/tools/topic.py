"""`oncelog topic`: list, create, describe, alter, delete.

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`).
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from oncelog.protocol.printable import printable_names
from oncelog.tools.asking import COUNT, Answer, NotFound, Session, Shown, asks, not_empty, planned, settings
from oncelog.tools.names import TOPICS

if TYPE_CHECKING:
    from oncelog.client.admin.descriptions import TopicDescription

_names = click.argument("names", metavar="TOPIC...", nargs=-1, required=True, type=not_empty, shell_complete=TOPICS)


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@asks(topic, "list")
@click.option("--internal", is_flag=True, help="Also Kafka's own, such as __consumer_offsets.")
async def list_(session: Session, internal: bool) -> Shown:
    """List every topic, with its number of partitions."""
    found = await session.admin.describe_topics()
    rows = [
        {"topic": each.name, "partitions": each.partition_count, "internal": each.is_internal}
        for each in sorted(found, key=lambda each: each.name)
        if internal or not each.is_internal
    ]
    return Answer(rows, "There is no topic: `oncelog topic create NAME` makes one.", _leaderless(found))


def _leaderless(topics: "Iterable[TopicDescription]") -> str:
    """Return the line below a table of topics with partitions that have no leader."""
    lost = [f"{each.name}-{part.partition}" for each in topics for part in each.partitions if part.leader < 0]
    return f"Without a leader: {', '.join(lost)}; `oncelog doctor` looks for the reason." if lost else ""


@asks(topic)
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, type=not_empty)
@click.option("-p", "--partitions", metavar="COUNT", type=COUNT, help="Default: num.partitions.")
@click.option(
    "-r", "--replicas", metavar="COUNT", type=click.IntRange(1, 2**15 - 1), help="Default: default.replication.factor."
)
@click.option(
    "-c", "--config", "configs", metavar="NAME=VALUE", multiple=True, callback=settings, help="May be repeated."
)
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that exists as it is.")
async def create(
    session: Session,
    names: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
) -> Shown:
    """Create topics, and show them."""
    from oncelog.client.admin.descriptions import NewTopic

    wanted = [NewTopic(name, partitions or -1, replicas or -1, configs) for name in names]
    await session.admin.create_topics(*wanted, exist_ok=if_not_exists)
    return [
        {"topic": each.name, "partitions": each.partition_count, "replicas": len(each.partitions[0].replicas)}
        for each in await session.admin.describe_topics(*names)
    ]


@asks(topic)
@_names
async def describe(session: Session, names: tuple[str, ...]) -> Shown:
    """Show the partitions of topics, and where they can be read.

    Who has them, and from which offset to which. A read_committed reader stops at last_stable_offset, where the first
    open transaction begins. A partition without a leader has leader -1, and no offsets.
    """
    from oncelog.client.values.records import TopicPartition

    described = await session.admin.describe_topics(*dict.fromkeys(names))
    parts = {TopicPartition(each.name, part.partition): part for each in described for part in each.partitions}
    led = [place for place, part in parts.items() if part.leader >= 0]
    starts = await session.admin.list_offsets(led, "earliest")
    stable = await session.admin.list_offsets(led, isolation_level="read_committed")
    ends = await session.admin.list_offsets(led)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "leader": part.leader,
            "replicas": list(part.replicas),
            "in_sync": list(part.in_sync_replicas),
            "start_offset": starts[place].offset if place in starts else None,
            "last_stable_offset": stable[place].offset if place in stable else None,
            "end_offset": ends[place].offset if place in ends else None,
        }
        for place, part in parts.items()
    ]
    return Answer(rows, hint=_leaderless(described))


@asks(topic)
@click.argument("name", metavar="TOPIC", type=not_empty, shell_complete=TOPICS)
@click.option("-p", "--partitions", metavar="COUNT", type=COUNT, required=True, help="How many there will be.")
@click.option("--dry-run", is_flag=True, help="Let the broker check it, and change nothing.")
async def alter(session: Session, name: str, partitions: int, dry_run: bool) -> Shown:
    """Add partitions to a topic. `oncelog config alter --topic TOPIC` changes its settings.

    Records with a key may then go to another partition than before.
    """
    await session.admin.create_partitions({name: partitions}, validate_only=dry_run)
    return planned([{"topic": name, "partitions": partitions}], dry_run)


@asks(topic, question=lambda names, **_: f"Delete {printable_names(names)} with all records?")
@_names
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and stop there.")
async def delete(session: Session, names: tuple[str, ...], dry_run: bool) -> Shown:
    """Delete topics with all their records. Nothing is deleted if one of them does not exist."""
    known = set(await session.admin.list_topics(include_internal=True))
    missing = [name for name in names if name not in known]
    if missing:
        raise NotFound(
            f"there is no topic {missing[0]!r}: nothing was deleted; `oncelog topic list` shows those there are"
        )
    if not dry_run:
        await session.admin.delete_topics(*names)
    return planned([{"topic": name, "deleted": not dry_run} for name in names], dry_run)
