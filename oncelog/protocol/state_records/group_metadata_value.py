"""GroupMetadataValue: a record of group-coordinator.

KIPs: 62 (rebalance timeout), 345 (static members), 915 (tagged fields).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int32, Int64, String

# Version 4 is the first flexible version.
# KIP-915: bumping the version will no longer make this record backward compatible.
# We suggest to add/remove only tagged fields to maintain backward compatibility.
GROUP_METADATA_VALUE = Schema(
    "GroupMetadataValue",
    api_key=2,
    versions="0-4",
    flexible="4+",
    fields=(
        Field("protocol_type", String),
        Field("generation", Int32),
        Field("protocol", String, nullable="0+"),
        Field("leader", String, nullable="0+"),
        Field("current_state_timestamp", Int64, "2+", default=-1),
        Field(
            "members",
            ArrayOf(
                Structure(
                    "MemberMetadata",
                    Field("member_id", String),
                    Field("group_instance_id", String, "3+", nullable="3+", default=None),
                    Field("client_id", String),
                    Field("client_host", String),
                    Field("rebalance_timeout", Int32, "1+", default=-1),
                    Field("session_timeout", Int32),
                    Field("subscription", Bytes),
                    Field("assignment", Bytes),
                )
            ),
        ),
    ),
)
