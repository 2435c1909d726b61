"""ConsumerProtocolAssignment.

KIPs: 429 (cooperative rebalancing).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int32, String

# Assignment part of the Consumer Protocol.
#
# The current implementation assumes that future versions will not break compatibility. When
# it encounters a newer version, it parses it using the current format. This basically means
# that new versions cannot remove or reorder any of the existing fields.
#
# Version 2 is to support a new field "GenerationId" in ConsumerProtocolSubscription.
# Version 3 adds rack id to ConsumerProtocolSubscription.
CONSUMER_PROTOCOL_ASSIGNMENT = Schema(
    "ConsumerProtocolAssignment",
    api_key=None,
    versions="0-3",
    flexible="",
    fields=(
        Field(
            "assigned_partitions",
            ArrayOf(
                Structure(
                    "TopicPartition",
                    Field("topic", String),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
        ),
        Field("user_data", Bytes, nullable="0+", default=None),
    ),
)
