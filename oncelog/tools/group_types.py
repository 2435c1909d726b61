"""Groups of every type as `oncelog group` shows them: consumer, share and streams groups under one name.

Owns: which type a group has, its rows. Does not own: the options (`group`), the requests (`client.admin`). A group id
is of one type, and no request says which without listing all groups: each type is asked for in turn.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog.client.admin.descriptions import GroupDescription
from oncelog.client.admin.share_descriptions import ShareGroupDescription, SharePartitionOffset
from oncelog.client.admin.streams_descriptions import StreamsGroupDescription, StreamsTask
from oncelog.client.values.errors import KafkaError
from oncelog.protocol.errors import ErrorCode
from oncelog.tools.terminal import Row

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.values.records import TopicPartition
    from oncelog.share_groups import SharePartition

_NOT_OF_THE_TYPE = frozenset((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION))
Group = GroupDescription | ShareGroupDescription | StreamsGroupDescription


async def find(admin: "Admin", group_id: str) -> Group:
    """Return the description of a group. Raises GROUP_ID_NOT_FOUND if there is none of any type."""
    try:
        return (await admin.describe_groups(group_id))[0]
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        not_found = error
    for describe in (admin.describe_share_groups, admin.describe_streams_groups):
        try:
            return (await describe(group_id))[0]
        except KafkaError as error:
            if error.code not in _NOT_OF_THE_TYPE:
                raise
    raise not_found


def type_of(found: Group) -> str:
    """Return the type as ListGroups names it."""
    if isinstance(found, ShareGroupDescription):
        return "share"
    return "streams" if isinstance(found, StreamsGroupDescription) else found.type


def consumer_group_row(found: GroupDescription) -> Row:
    return {
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
                "partitions": _places(each.partitions),
            }
            for each in found.members
        ],
    }


def share_group_row(
    found: ShareGroupDescription,
    offsets: "Mapping[TopicPartition, SharePartitionOffset]",
    partitions: "Sequence[SharePartition] | None" = None,
) -> Row:
    """`partitions` are what a broker's HTTP port says of the group, if it was asked."""
    in_use = {(each.topic, each.partition): each for each in partitions or () if each.is_in_use}

    def in_flight(place: "TopicPartition") -> Row:
        if partitions is None:
            return {}
        known = in_use.get(place)
        return {
            "in_flight": None if known is None else known.in_flight,
            "acquired": None if known is None else known.acquired,
            "delivery_counts": None if known is None else Counts(known.delivery_counts),
        }

    failed: Row = {} if partitions is None else {"failed": _failed_rows(partitions)}
    return {
        "group": found.group_id,
        "state": found.state,
        "type": "share",
        "assignor": found.assignor or None,
        "epoch": found.epoch,
        "assignment_epoch": found.assignment_epoch,
        "coordinator": found.coordinator_id,
        "members": [
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "host": each.host,
                "topics": list(each.topics),
                "partitions": _places(each.partitions),
            }
            for each in found.members
        ],
        "offsets": [
            {
                "topic": place.topic,
                "partition": place.partition,
                "start_offset": each.start_offset,
                "lag": each.lag,
                **in_flight(place),
            }
            for place, each in sorted(offsets.items())
        ],
        **failed,
    }


class Counts(dict[int, int]):
    """How many records were delivered how often; people read it as `1: 20, 2: 3`."""

    def __str__(self) -> str:
        return ", ".join(f"{deliveries}: {records}" for deliveries, records in self.items()) or "-"


def _failed_rows(partitions: "Iterable[SharePartition]") -> list[Row]:
    """Return the records that fail, those first that fail most."""
    failed = sorted(
        ((partition, each) for partition in partitions for each in partition.failed),
        key=lambda pair: -pair[1].failure_count,
    )
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": each.offset,
            "released": each.released,
            "lost": each.lost,
            "rejected": each.rejected,
            "archived": each.is_archived,
        }
        for partition, each in failed
    ]


def streams_group_row(found: StreamsGroupDescription) -> Row:
    return {
        "group": found.group_id,
        "state": found.state,
        "type": "streams",
        "epoch": found.epoch,
        "assignment_epoch": found.assignment_epoch,
        "topology_epoch": found.topology_epoch if found.topology_epoch >= 0 else None,
        "coordinator": found.coordinator_id,
        "subtopologies": [
            {
                "subtopology": each.subtopology_id,
                "source_topics": list(each.source_topics),
                "repartition_source_topics": [topic.name for topic in each.repartition_source_topics],
                "repartition_sink_topics": list(each.repartition_sink_topics),
                "changelog_topics": [topic.name for topic in each.changelog_topics],
            }
            for each in found.subtopologies
        ],
        "members": [
            {
                "member_id": each.member_id,
                "process_id": each.process_id,
                "client_id": each.client_id,
                "host": each.host,
                "topology_epoch": each.topology_epoch,
                "active_tasks": _tasks(each.tasks.active),
                "standby_tasks": _tasks(each.tasks.standby),
                "warmup_tasks": _tasks(each.tasks.warmup),
            }
            for each in found.members
        ],
    }


def _places(places: "Iterable[TopicPartition]") -> list[str]:
    return [f"{place.topic}-{place.partition}" for place in sorted(places)]


def _tasks(tasks: Iterable[StreamsTask]) -> list[str]:
    return list(map(str, tasks))


async def offsets_of(
    admin: "Admin", found: Group, *, require_stable: bool = True
) -> "dict[TopicPartition, int | None]":
    """Return the offsets that a group has committed, or where a share group starts; None where it has not read yet."""
    if isinstance(found, ShareGroupDescription):
        starts = await admin.list_share_group_offsets(found.group_id)
        return {place: each.start_offset for place, each in starts.items()}
    committed = await admin.list_group_offsets(found.group_id, require_stable=require_stable)
    return {place: each.offset for place, each in committed.items()}


async def share_group_lag(admin: "Admin", found: ShareGroupDescription) -> list[Row]:
    """Return a row of each partition that the group has read or is to read, with those who share it."""
    offsets = await admin.list_share_group_offsets(found.group_id)
    ends = await admin.list_offsets(offsets)
    stable = await admin.list_offsets(offsets, isolation_level="read_committed")
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "start_offset": each.start_offset,
            "last_stable_offset": stable[place].offset,
            "end_offset": ends[place].offset,
            "lag": each.lag,
            "client_ids": sorted(member.client_id for member in found.members if place in member.partitions),
        }
        for place, each in offsets.items()
    ]


def state_stays(found: Group) -> str:
    """Return what else an application of Kafka Streams has, which a change of its offsets does not touch; "" for
    nothing."""
    if not isinstance(found, StreamsGroupDescription) or not found.internal_topics:
        return ""
    topics = " ".join(found.internal_topics)
    return (
        "The state of the application stays. To compute it again, delete its internal topics, `oncelog topic delete "
        f"{topics}`, and the state directories of its instances."
    )
