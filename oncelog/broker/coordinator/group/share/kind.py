"""The entry of share groups in the table of types."""

from oncelog.broker.coordinator.group.kind import GroupKind
from oncelog.broker.coordinator.group.requests import SHARE_TYPE
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.records import SHARE_GROUP_TYPE, decode
from oncelog.broker.coordinator.group.share.update import tombstones

SHARE_GROUPS = GroupKind(SHARE_TYPE, SHARE_TYPE, SHARE_GROUP_TYPE, ShareGroup, decode, tombstones, None)
