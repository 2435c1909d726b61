"""The entry of streams groups in the table of types."""

from oncelog.broker.coordinator.group.kind import GroupKind, OffsetRules
from oncelog.broker.coordinator.group.requests import STREAMS_TYPE
from oncelog.broker.coordinator.group.streams.commits import check_commit, check_reader, check_transactional
from oncelog.broker.coordinator.group.streams.group import StreamsGroup
from oncelog.broker.coordinator.group.streams.records import STREAMS_GROUP_TYPE, decode
from oncelog.broker.coordinator.group.streams.update import tombstones

STREAMS_GROUPS = GroupKind(
    STREAMS_TYPE,
    STREAMS_TYPE,
    STREAMS_GROUP_TYPE,
    StreamsGroup,
    decode,
    tombstones,
    OffsetRules(check_commit, check_transactional, check_reader),
)
