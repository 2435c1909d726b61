"""`kafka-consumer-groups`: list, describe, delete, reset and delete offsets.

Owns: Kafka's tables and words. As in Kafka's script, an error about a group is printed on standard output and the exit
code stays 0.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from oncelog.tools.kafka_scripts.arguments import Options, Wrong, out
from oncelog.tools.kafka_scripts.asking import ask
from oncelog.tools.positions import Position, offsets_at, partitions_of
from oncelog.tools.terminal import say

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.admin.descriptions import GroupDescription, ListedGroup
    from oncelog.client.values.errors import KafkaError
    from oncelog.client.values.records import TopicPartition

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_MOVES = ("to-earliest", "to-latest", "to-current", "to-offset", "to-datetime", "shift-by", "by-duration")
_CONSUMER_TYPES = ("classic", "consumer", "")
_CONSUMER_PROTOCOLS = ("consumer", "")
_NARROW = 15
"""The least width of most columns."""


def groups(options: Options) -> int:
    action = options.only(_ACTIONS)

    async def work(admin: "Admin") -> int:
        match action:
            case "list":
                await _list(admin, options)
            case "describe":
                await _describe(admin, options)
            case "delete":
                await _delete(admin, await _ids(admin, options))
            case "reset-offsets":
                for group_id in await _ids(admin, options):
                    await _reset(admin, options, group_id)
            case _:
                await _delete_offsets(admin, options)
        return 0

    return ask(options, work)


async def _ids(admin: "Admin", options: Options) -> list[str]:
    if "all-groups" in options:
        return [each.group_id for each in await _consumer_groups(admin)]
    if "group" not in options:
        raise Wrong(f"Option {options.only(_ACTIONS)} takes one of these options: all-groups, group")
    return options.all("group")


async def _consumer_groups(admin: "Admin") -> "list[ListedGroup]":
    """Return the groups that Kafka's script has: neither share and streams groups, nor those of Kafka Connect."""
    return [
        each
        for each in await admin.list_groups()
        if each.type in _CONSUMER_TYPES and each.protocol_type in _CONSUMER_PROTOCOLS
    ]


async def _list(admin: "Admin", options: Options) -> None:
    found = await _consumer_groups(admin)
    if "state" not in options:
        out(*(each.group_id for each in found))
        return
    width = max([_NARROW, *(len(each.group_id) for each in found)]) + 10
    _table(("GROUP", "STATE"), [(each.group_id, each.state) for each in found], width)


async def _describe(admin: "Admin", options: Options) -> None:
    from oncelog.client.values.errors import KafkaError

    for group_id in await _ids(admin, options):
        try:
            (group,) = await admin.describe_groups(group_id)
        except KafkaError as error:
            if error.name != "GROUP_ID_NOT_FOUND":
                raise
            _failed(f"GroupIdNotFoundException: Group {group_id} not found.")
            return
        if not group.members:
            say("", err=True)
            say(f"Consumer group '{group_id}' has no active members.", err=True)
        if "members" in options:
            _show_members(group)
        elif "state" in options:
            await _show_state(admin, group)
        else:
            await _show_offsets(admin, group_id)


def _failed(text: str) -> None:
    out("", f"Error: Executing consumer group command failed due to org.apache.kafka.common.errors.{text}")


async def _show_offsets(admin: "Admin", group_id: str) -> None:
    rows = []
    for each in await admin.list_group_lag(group_id):
        member = each.member
        committed, lag = ("-", "-") if each.committed_offset is None else (str(each.committed_offset), str(each.lag))
        who = ("-", "-", "-") if member is None else (member.member_id, member.host, member.client_id)
        place = each.topic_partition
        rows.append((group_id, place.topic, str(place.partition), committed, str(each.log_end_offset), lag, *who))
    if not rows:
        return
    header = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST")
    out("")
    _table((*header, "CLIENT-ID"), rows, _NARROW, _NARROW, 10, *[_NARROW] * 5)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *least: int) -> None:
    """Print a table as Java's format `%-15s %-15s %s`: each column but the last has at least the given width."""
    widths = [max([width, *(len(row[column]) for row in rows)]) for column, width in enumerate(least)]
    for row in (header, *rows):
        out(" ".join(text.ljust(width) for text, width in zip(row, [*widths, 0], strict=True)))


def _show_members(group: "GroupDescription") -> None:
    rows = [
        (group.group_id, each.member_id, each.host, each.client_id, str(len(each.partitions)), "")
        for each in group.members
    ]
    out("")
    _table(("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", ""), rows, *[_NARROW] * 5)


async def _show_state(admin: "Admin", group: "GroupDescription") -> None:
    host, port = (await admin.describe_cluster()).nodes[group.coordinator_id]
    coordinator = f"{host}:{port}  ({group.coordinator_id})"
    row = (group.group_id, coordinator, group.assignor or "-", group.state, str(len(group.members)))
    out("")
    header = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    _table(header, [row], _NARROW, 25, 20, 20)


async def _delete(admin: "Admin", group_ids: list[str]) -> None:
    from oncelog.client.values.errors import KafkaError

    failed: dict[str, str] = {}
    for group_id in group_ids:
        try:
            await admin.delete_groups(group_id)
        except KafkaError as error:
            failed[group_id] = f"org.apache.kafka.common.errors.{_java_name(error)}"
    deleted = ", ".join(f"'{each}'" for each in group_ids if each not in failed)
    if not failed:
        out(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    out("", "Error: Deletion of some consumer groups failed:")
    out(*(f"* Group '{group_id}' could not be deleted due to: {reason}" for group_id, reason in failed.items()))
    if deleted:
        out("", f"These consumer groups were deleted successfully: {deleted}")


def _java_name(error: "KafkaError") -> str:
    """Return Java's name of an error, such as GroupIdNotFoundException for GROUP_ID_NOT_FOUND, with the text of the
    code."""
    name = "".join(word.title() for word in error.name.split("_"))
    text = error.code.text if error.code is not None else error.message
    return f"{name}Exception: {text}"


async def _reset(admin: "Admin", options: Options, group_id: str) -> None:
    committed = {place: each.offset for place, each in (await admin.list_group_offsets(group_id)).items()}
    topics = options.all("topic")
    if not topics and "all-topics" not in options:
        raise Wrong("Option reset-offsets takes one of these options: all-topics, topic")
    places = [place for text in topics for place in await partitions_of(admin, text)] or sorted(committed)
    new = await _moved(admin, options, places, committed)
    if "execute" in options:
        await admin.alter_group_offsets(group_id, new)
    elif "dry-run" not in options:
        say("WARN: nothing is reset, as --execute is missing; --dry-run says that this is meant.", err=True)
    rows = [(group_id, place.topic, str(place.partition), str(new[place])) for place in places]
    out("")
    _table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), rows, _NARROW, _NARROW, 10)


async def _moved(
    admin: "Admin", options: Options, places: "list[TopicPartition]", committed: "dict[TopicPartition, int]"
) -> "dict[TopicPartition, int]":
    """Return the new offset of each partition, within what it has."""
    move = options.only(_MOVES)
    starts = await offsets_at(admin, places, Position("start"))
    ends = await offsets_at(admin, places, Position("end"))
    match move:
        case "to-earliest":
            wanted = starts
        case "to-latest":
            wanted = ends
        case "to-current":
            wanted = {place: committed.get(place, ends[place]) for place in places}
        case "to-offset":
            wanted = dict.fromkeys(places, options.number(move, 0))
        case "shift-by":
            wanted = {place: committed.get(place, 0) + options.number(move, 0) for place in places}
        case _:
            return await offsets_at(admin, places, Position("time", _time_ms(options, move)))
    return {place: min(max(wanted[place], starts[place]), ends[place]) for place in places}


_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")


def _time_ms(options: Options, move: str) -> int:
    """Return the time in milliseconds: --to-datetime is YYYY-MM-DDTHH:mm:SS.sss, --by-duration PnDTnHnMnS ago. Raises
    Wrong."""
    text = options.value(move)
    if move == "to-datetime":
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise Wrong(f"--to-datetime: {error}") from error
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Wrong(f"--by-duration: {text!r} is not of the form PnDTnHnMnS")
    days, hours, minutes, seconds = (int(each or 0) for each in match.groups())
    ago = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return int((datetime.now(UTC) - ago).timestamp() * 1000)


async def _delete_offsets(admin: "Admin", options: Options) -> None:
    group_id = options.value("group")
    places = [place for text in options.all("topic") for place in await partitions_of(admin, text)]
    await admin.delete_group_offsets(group_id, places)
    out("", f"Request succeeded for deleting offsets from group {group_id}.")
    rows = [(place.topic, str(place.partition), "Successful") for place in places]
    _table(("TOPIC", "PARTITION", "STATUS"), rows, _NARROW, 10)
