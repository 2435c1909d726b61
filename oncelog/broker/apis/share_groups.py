"""The APIs of share groups that the group coordinator answers (KIP-932).

Owns: one descriptor for each. Does not own: the contracts, which are the docstrings of the handlers.
"""

from oncelog.broker.apis.descriptor import (
    READS,
    Api,
    EachRow,
    Errors,
    Need,
    Operations,
    Own,
    Refused,
    Right,
    Rights,
    Rows,
)
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

_O = AclOperation
_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC
_NEEDS = (Need.GROUPS, Need.SHARE_GROUPS, Need.SHARE_STATE)
_NO_GROUP = Refused(ErrorCode.GROUP_AUTHORIZATION_FAILED, has_message=True)

SHARE_GROUPS = (
    Api(
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        1,
        needs=_NEEDS,
        rights=Rights(steps=(Own("share_groups.Subscription", (Right(_O.READ, _GROUP), Right(_O.DESCRIBE, _TOPIC))),)),
        read_only=_NO_GROUP,
    ),
    Api(
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        1,
        needs=_NEEDS,
        rights=Rights(
            steps=(
                EachRow(_O.DESCRIBE, _GROUP, name_of="share_groups.served_group"),
                Own("share_groups.Assignments", (Right(_O.DESCRIBE, _TOPIC),)),
                Operations(_GROUP, "groups", "group_id", "authorized_operations"),
            )
        ),
        read_only=READS,
        errors=(Errors((Rows("group_ids", "groups", "DescribedGroup", ("group_id",)),)),),
        on_fault="no place",
    ),
    Api(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        0,
        1,
        needs=_NEEDS,
        rights=Rights(
            steps=(
                EachRow(_O.DESCRIBE, _GROUP, name_of="share_groups.served_group_of"),
                Own("share_groups.DescribedOffsets", (Right(_O.DESCRIBE, _TOPIC),)),
            )
        ),
        read_only=READS,
        errors=(Errors((Rows("groups", "groups", "DescribeShareGroupOffsetsResponseGroup", ("group_id",)),)),),
        on_fault="no place",
    ),
    Api(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        0,
        needs=_NEEDS,
        rights=Rights(steps=(Own("share_groups.AlteredOffsets", (Right(_O.READ, _GROUP), Right(_O.READ, _TOPIC))),)),
        read_only=_NO_GROUP,
    ),
    Api(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        0,
        needs=_NEEDS,
        rights=Rights(steps=(Own("share_groups.DeletedOffsets", (Right(_O.DELETE, _GROUP), Right(_O.READ, _TOPIC))),)),
        read_only=_NO_GROUP,
    ),
)
