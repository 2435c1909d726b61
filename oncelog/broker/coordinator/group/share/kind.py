"""The entry of share groups in the table of types."""

from oncelog.broker.coordinator.group.engine.kind import GroupKind
from oncelog.broker.coordinator.group.engine.requests import SHARE_TYPE
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.records import RECORDS

SHARE_GROUPS = GroupKind(SHARE_TYPE, SHARE_TYPE, ShareGroup, RECORDS, None)
