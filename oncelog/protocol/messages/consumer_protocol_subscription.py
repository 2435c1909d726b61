"""ConsumerProtocolSubscription.

KIPs: 429 (owned partitions), 792 (generation), 881 (rack).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int32, String

# Subscription part of the Consumer Protocol.
#
# The current implementation assumes that future versions will not break compatibility. When
# it encounters a newer version, it parses it using the current format. This basically means
# that new versions cannot remove or reorder any of the existing fields.
# Version 1 added the "OwnedPartitions" field to allow assigner know what partitions each member owned
# Version 2 added a new field "GenerationId" to indicate if the member has out-of-date ownedPartitions.
# Version 3 adds rack id to enable rack-aware assignment.
CONSUMER_PROTOCOL_SUBSCRIPTION = Schema(
    "ConsumerProtocolSubscription",
    api_key=None,
    versions="0-3",
    flexible="",
    fields=(
        Field("topics", ArrayOf(String)),
        Field("user_data", Bytes, nullable="0+", default=None),
        Field(
            "owned_partitions",
            ArrayOf(
                Structure(
                    "TopicPartition",
                    Field("topic", String, "1+"),
                    Field("partitions", ArrayOf(Int32), "1+"),
                )
            ),
            "1+",
        ),
        Field("generation_id", Int32, "2+", default=-1),
        Field("rack_id", String, "3+", nullable="3+", default=None),
    ),
)
