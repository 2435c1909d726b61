"""The entry of streams groups in the table of types."""

from oncelog.broker.coordinator.group.engine.commits import offset_rules
from oncelog.broker.coordinator.group.engine.kind import GroupKind, OffsetToCommit
from oncelog.broker.coordinator.group.engine.requests import STREAMS_TYPE
from oncelog.broker.coordinator.group.streams.group import StreamsGroup
from oncelog.broker.coordinator.group.streams.member import StreamsMember
from oncelog.broker.coordinator.group.streams.records import RECORDS


def _owned_since(group: StreamsGroup, member: StreamsMember, offset: OffsetToCommit) -> int | None:
    """Return when the member was given the task that reads the partition."""
    topic, partition = offset.partition
    subtopology_id = group.readers.get(topic)
    return None if subtopology_id is None else member.current.assigned_in(subtopology_id, partition)


STREAMS_GROUPS = GroupKind(
    STREAMS_TYPE,
    STREAMS_TYPE,
    StreamsGroup,
    RECORDS,
    offset_rules(
        _owned_since,
        unsupported="OffsetCommit version 9 or above must be used by members using the streams group protocol",
        refuses_all=True,
    ),
)
