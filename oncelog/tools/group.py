"""`oncelog group`: consumer groups of both protocols, their lag and their offsets.

Owns: the options and rows. Does not own: connecting, printing, errors (`asking`), positions (`positions`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncelog.protocol.group_states import GROUP_STATES, GROUP_TYPES
from oncelog.protocol.printable import printable_names
from oncelog.tools.asking import Answer, NotFound, Session, Shown, asks, not_empty, planned
from oncelog.tools.names import GROUPS, TOPICS
from oncelog.tools.positions import HELP, Position, offsets_at, partitions_of, places_option, position_option

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.values.records import TopicPartition

_Command = TypeVar("_Command", bound=Callable[..., Any])
_group = click.argument("group_id", metavar="GROUP", type=not_empty, shell_complete=GROUPS)


def _topics(text: str) -> Callable[[_Command], _Command]:
    return click.option(
        "-t",
        "--topic",
        "topics",
        metavar="TOPIC[:0,1]",
        multiple=True,
        callback=places_option,
        type=not_empty,
        shell_complete=TOPICS,
        help=text,
    )


@click.group()
def group() -> None:
    """List and describe consumer groups; show and move their offsets."""


@asks(group, "list")
@click.option("--state", "states", type=click.Choice(GROUP_STATES), multiple=True)
@click.option("--type", "types", type=click.Choice(GROUP_TYPES), multiple=True)
async def list_(session: Session, states: tuple[str, ...], types: tuple[str, ...]) -> Shown:
    """List every group, of all coordinators."""
    return Answer(
        [
            {
                "group": each.group_id,
                "state": each.state,
                "type": each.type,
                "protocol_type": each.protocol_type or None,
                "coordinator": each.coordinator_id,
            }
            for each in await session.admin.list_groups(states=states, types=types)
        ],
        "There is no such group." if states or types else "There is no group.",
    )


@asks(group)
@_group
async def describe(session: Session, group_id: str) -> Shown:
    """Show a group's state, and its members with their partitions."""
    (found,) = await session.admin.describe_groups(group_id)
    row = {
        "group": found.group_id,
        "state": found.state,
        "type": found.type,
        "protocol_type": found.protocol_type or None,
        "assignor": found.assignor or None,
        "epoch": found.epoch if found.epoch >= 0 else None,
        "coordinator": found.coordinator_id,
        "members": [
            {
                "member_id": each.member_id,
                "instance_id": each.group_instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "partitions": [f"{place.topic}-{place.partition}" for place in sorted(each.partitions)],
            }
            for each in found.members
        ],
    }
    return Answer(row, gives_way=("member_id", "instance_id"))


@asks(group)
@_group
async def lag(session: Session, group_id: str) -> Shown:
    """Show how far a group is behind in each partition.

    It also says who reads the partition. The lag counts offsets up to the end, markers of transactions included. A
    read_committed reader cannot pass last_stable_offset until the transactions open there have ended.
    """
    return Answer(
        [
            {
                "topic": each.topic_partition.topic,
                "partition": each.topic_partition.partition,
                "committed_offset": each.committed_offset,
                "last_stable_offset": each.last_stable_offset,
                "end_offset": each.log_end_offset,
                "lag": each.lag,
                "client_id": None if each.member is None else each.member.client_id,
                "host": None if each.member is None else each.member.host,
            }
            for each in await session.admin.list_group_lag(group_id)
        ],
        "The group has no offsets and reads nothing.",
        gives_way=("host", "client_id"),
    )


@asks(group)
@_group
async def offsets(session: Session, group_id: str) -> Shown:
    """Show what the group has committed."""
    await session.admin.describe_groups(group_id)
    found = await session.admin.list_group_offsets(group_id, require_stable=False)
    return Answer(
        [
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed_offset": each.offset,
                "leader_epoch": each.leader_epoch if each.leader_epoch >= 0 else None,
                "metadata": each.metadata,
            }
            for place, each in sorted(found.items())
        ],
        "The group has committed nothing.",
    )


@asks(group, question=lambda group_id, **_: f"Move the committed offsets of {printable_names([group_id])}?")
@_group
@_topics("Default: all that it has offsets of.")
@click.option("--to", "wanted", metavar="POSITION", required=True, callback=position_option, help=HELP)
@click.option("--create", is_flag=True, help="Give offsets to a group that does not exist yet.")
@click.option("--dry-run", is_flag=True, help="Show what would be committed, and stop there.")
async def reset(
    session: Session, group_id: str, topics: tuple[str, ...], wanted: Position, create: bool, dry_run: bool
) -> Shown:
    """Move the committed offsets of a group that has no members now."""
    admin = session.admin
    await _require_no_members(admin, group_id, may_be_new=create)
    committed = await admin.list_group_offsets(group_id)
    places: list[TopicPartition] = sorted(committed)
    if topics:
        places = [place for text in topics for place in await partitions_of(admin, text)]
    if not places:
        raise NotFound(f"group {group_id!r} has no offsets: name a topic with --topic")
    new = await offsets_at(admin, places, wanted)
    if not dry_run:
        await admin.alter_group_offsets(group_id, new)
    rows = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "committed_offset": committed[place].offset if place in committed else None,
            "new_offset": new[place],
        }
        for place in places
    ]
    return planned(rows, dry_run)


async def _require_no_members(admin: "Admin", group_id: str, *, may_be_new: bool) -> None:
    """Raise unless the group is empty: the brokers would refuse the new offsets as well, but not of a dry run. Raises
    NotFound, GROUP_ID_NOT_FOUND."""
    from oncelog.client.values.errors import KafkaError

    try:
        (found,) = await admin.describe_groups(group_id)
    except KafkaError as error:
        if may_be_new and error.name == "GROUP_ID_NOT_FOUND":
            return
        raise
    if found.members:
        step = "stop its consumers first; `oncelog group describe` shows them"
        raise NotFound(f"group {group_id!r} has members: {step}")


def _delete_question(group_ids: tuple[str, ...], topics: tuple[str, ...]) -> str:
    groups = printable_names(group_ids)
    return f"Delete the offsets of {groups} in {printable_names(topics)}?" if topics else f"Delete {groups}?"


@asks(group, question=_delete_question)
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True, type=not_empty, shell_complete=GROUPS)
@_topics("Only its offsets of this topic.")
async def delete(session: Session, group_ids: tuple[str, ...], topics: tuple[str, ...]) -> Shown:
    """Delete groups, or only their offsets of some topics.

    A group must have no members. Nothing is deleted if one of the groups does not exist, or has no offsets of one of
    the topics.
    """
    admin = session.admin
    await admin.describe_groups(*group_ids)
    if not topics:
        for group_id in group_ids:
            await admin.delete_groups(group_id)
        return [{"group": group_id, "deleted": ["all"]} for group_id in group_ids]
    named = {text: await partitions_of(admin, text) for text in topics}
    committed = {group_id: await admin.list_group_offsets(group_id, require_stable=False) for group_id in group_ids}
    for group_id, offsets in committed.items():
        for text, places in named.items():
            if not offsets.keys() & set(places):
                raise NotFound(
                    f"group {group_id!r} has no offsets of {text!r}: nothing was deleted; `oncelog group offsets` "
                    "shows those that it has"
                )
    for group_id, offsets in committed.items():
        wanted = {place for places in named.values() for place in places}
        await admin.delete_group_offsets(group_id, sorted(offsets.keys() & wanted))
    return [{"group": group_id, "deleted": list(topics)} for group_id in group_ids]
