"""`oncelog group`: consumer groups of both protocols, share groups and streams groups, their lag and their offsets.

Owns: the options, the rows of offsets. Does not own: what the types differ in (`group_types`, which is imported when a
command runs), connecting, printing, errors (`asking`), positions (`positions`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from oncelog.protocol.group_states import GROUP_STATES, GROUP_TYPES
from oncelog.protocol.printable import printable_names
from oncelog.tools.asking import Answer, NotFound, Session, Shown, asks, not_empty, planned
from oncelog.tools.metrics_port import metrics_option, metrics_port_options, token_or_fail
from oncelog.tools.names import GROUPS, TOPICS
from oncelog.tools.positions import HELP, Position, offsets_at, partitions_of, places_option, position_option
from oncelog.tools.terminal import Row

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.values.records import TopicPartition
    from oncelog.share_groups import SharePartition
    from oncelog.tools.group_types import Group

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
    """List and describe groups of consumers, share and streams groups; show and move their offsets."""


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
@metrics_option("Where the broker serves HTTP: what a share group has in flight is shown, and which records fail")
@metrics_port_options
async def describe(
    session: Session, group_id: str, metrics: str | None, token_file: str | None, ca_file: str | None
) -> Shown:
    """Show a group's state, and its members with their partitions.

    Of a share group it also shows where it is in each partition, of a streams group its subtopologies, and the tasks of
    each member.
    """
    from oncelog.client.admin.share_descriptions import ShareGroupDescription
    from oncelog.client.admin.streams_descriptions import StreamsGroupDescription
    from oncelog.share_groups import ShareGroupUnavailable
    from oncelog.tools.group_types import consumer_group_row, find, share_group_row, streams_group_row

    found = await find(session.admin, group_id)
    if isinstance(found, ShareGroupDescription):
        offsets = await session.admin.list_share_group_offsets(group_id)
        gives_way = ("member_id", "topics", "host")
        if metrics is None:
            return Answer(share_group_row(found, offsets), gives_way=gives_way)
        try:
            partitions = await _in_flight(session, group_id, metrics, token_file, ca_file)
        except ShareGroupUnavailable as error:
            return Answer(share_group_row(found, offsets), gives_way=gives_way, failure=str(error))
        return Answer(share_group_row(found, offsets, partitions), gives_way=gives_way)
    if isinstance(found, StreamsGroupDescription):
        return Answer(streams_group_row(found), gives_way=("member_id", "process_id", "host"))
    return Answer(consumer_group_row(found), gives_way=("member_id", "instance_id"))


async def _in_flight(
    session: Session, group_id: str, address: str, token_file: str | None, ca_file: str | None
) -> "list[SharePartition]":
    """Raises ShareGroupUnavailable."""
    from asyncio import to_thread

    from oncelog.share_groups import ask_share_group

    token, timeout_s = token_or_fail(token_file), session.timeout_ms / 1000
    return await to_thread(ask_share_group, address, group_id, timeout_s, token=token, ca_file=ca_file)


@asks(group)
@_group
async def lag(session: Session, group_id: str) -> Shown:
    """Show how far a group is behind in each partition.

    It also says who reads the partition. The lag counts offsets up to the end, markers of transactions included. A
    read_committed reader cannot pass last_stable_offset until the transactions open there have ended. The lag of a
    share group is what the broker counts: offsets that are still to be delivered or acknowledged.
    """
    from oncelog.client.admin.share_descriptions import ShareGroupDescription
    from oncelog.tools.group_types import find, share_group_lag

    found = await find(session.admin, group_id)
    if isinstance(found, ShareGroupDescription):
        rows = await share_group_lag(session.admin, found)
        return Answer(rows, "The group has no offsets and reads nothing.", gives_way=("client_ids",))
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
    """Show what the group has committed, or where a share group starts."""
    from oncelog.client.admin.share_descriptions import ShareGroupDescription
    from oncelog.tools.group_types import find

    if isinstance(await find(session.admin, group_id), ShareGroupDescription):
        starts = await session.admin.list_share_group_offsets(group_id)
        rows: list[Row] = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "start_offset": start.start_offset,
                "leader_epoch": start.leader_epoch,
            }
            for place, start in starts.items()
        ]
        return Answer(rows, "The group has no offsets.")
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


@asks(group, question=lambda group_id, **_: f"Move the offsets of {printable_names([group_id])}?")
@_group
@_topics("Default: all that it has offsets of; of a streams group, those that are not its own.")
@click.option("--to", "wanted", metavar="POSITION", required=True, callback=position_option, help=HELP)
@click.option("--create", is_flag=True, help="Give offsets to a group that does not exist yet.")
@click.option("--share", is_flag=True, help="The group is a share group: --create makes one.")
@click.option("--dry-run", is_flag=True, help="Show what would be changed, and stop there.")
async def reset(
    session: Session, group_id: str, topics: tuple[str, ...], wanted: Position, create: bool, share: bool, dry_run: bool
) -> Shown:
    """Move the offsets of a group that has no members now.

    They are its committed offsets, or where a share group starts: what it has acknowledged from there on is forgotten.
    """
    from oncelog.client.admin.streams_descriptions import StreamsGroupDescription
    from oncelog.tools.group_types import offsets_of, state_stays, type_of

    admin = session.admin
    found = await _without_members(admin, group_id, may_be_new=create)
    is_shared = share if found is None else type_of(found) == "share"
    if share and found is not None and not is_shared:
        raise NotFound(f"group {group_id!r} is a {type_of(found)} group: leave out --share")
    offsets = {} if found is None else await offsets_of(admin, found)
    inputs = found.source_topics if isinstance(found, StreamsGroupDescription) else None
    places = sorted(place for place in offsets if inputs is None or place.topic in inputs)
    if topics:
        places = [place for text in topics for place in await partitions_of(admin, text)]
    if not places:
        raise NotFound(f"group {group_id!r} has no offsets: name a topic with --topic")
    new = await offsets_at(admin, places, wanted)
    if not dry_run:
        await (admin.alter_share_group_offsets if is_shared else admin.alter_group_offsets)(group_id, new)
    rows: list[Row] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "start_offset" if is_shared else "committed_offset": offsets.get(place),
            "new_offset": new[place],
        }
        for place in places
    ]
    return planned(rows, dry_run) if dry_run or found is None else Answer(rows, hint=state_stays(found))


async def _without_members(admin: "Admin", group_id: str, *, may_be_new: bool) -> "Group | None":
    """Return the group, None if it is new. Raise unless it is empty: the brokers would refuse the new offsets as well,
    but not of a dry run. Raises NotFound, GROUP_ID_NOT_FOUND."""
    from oncelog.client.values.errors import KafkaError
    from oncelog.tools.group_types import find

    try:
        found = await find(admin, group_id)
    except KafkaError as error:
        if may_be_new and error.name == "GROUP_ID_NOT_FOUND":
            return None
        raise
    if found.members:
        step = "stop its consumers first; `oncelog group describe` shows them"
        raise NotFound(f"group {group_id!r} has members: {step}")
    return found


def _delete_question(group_ids: tuple[str, ...], topics: tuple[str, ...]) -> str:
    groups = printable_names(group_ids)
    return f"Delete the offsets of {groups} in {printable_names(topics)}?" if topics else f"Delete {groups}?"


@asks(group, question=_delete_question)
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True, type=not_empty, shell_complete=GROUPS)
@_topics("Only its offsets of this topic.")
async def delete(session: Session, group_ids: tuple[str, ...], topics: tuple[str, ...]) -> Shown:
    """Delete groups, or only their offsets of some topics.

    A group must have no members. Nothing is deleted if one of the groups does not exist, or has no offsets of one of
    the topics. A share group forgets what it has acknowledged there, in all partitions of a topic.
    """
    from oncelog.tools.group_types import find, state_stays, type_of

    admin = session.admin
    found = [await find(admin, group_id) for group_id in group_ids]
    if not topics:
        for group_id in group_ids:
            await admin.delete_groups(group_id)
        rows: list[Row] = [{"group": group_id, "deleted": ["all"]} for group_id in group_ids]
        return Answer(rows, hint=" ".join(filter(None, map(state_stays, found))))
    wanted = [(each, await _offsets_in(admin, each, topics)) for each in found]
    for each, places in wanted:
        if type_of(each) == "share":
            await admin.delete_share_group_offsets(each.group_id, sorted({place.topic for place in places}))
        else:
            await admin.delete_group_offsets(each.group_id, places)
    return [{"group": group_id, "deleted": list(topics)} for group_id in group_ids]


async def _offsets_in(admin: "Admin", found: "Group", topics: tuple[str, ...]) -> "list[TopicPartition]":
    """Return the partitions named by `topics` that the group has offsets of. Raises NotFound if there is none of one of
    them, UNKNOWN_TOPIC_OR_PARTITION."""
    from oncelog.tools.group_types import offsets_of, type_of

    named = {text: await partitions_of(admin, text) for text in topics}
    is_shared = type_of(found) == "share"
    for text in named:
        if is_shared and ":" in text:
            whole = text.partition(":")[0]
            raise NotFound(
                f"group {found.group_id!r} is a share group, whose offsets are deleted by whole topics: name {whole!r}"
            )
    offsets = await offsets_of(admin, found, require_stable=False)
    for text, places in named.items():
        if not offsets.keys() & set(places):
            raise NotFound(
                f"group {found.group_id!r} has no offsets of {text!r}: nothing was deleted; `oncelog group offsets` "
                "shows those that it has"
            )
    return sorted(offsets.keys() & {place for places in named.values() for place in places})
