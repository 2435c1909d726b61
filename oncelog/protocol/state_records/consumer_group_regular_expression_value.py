"""ConsumerGroupRegularExpressionValue: a record of group-coordinator.

KIPs: 848 (the consumer protocol), 915 (tagged fields).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int64, String

CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Schema(
    "ConsumerGroupRegularExpressionValue",
    api_key=16,
    versions="0",
    flexible="0+",
    fields=(
        Field("topics", ArrayOf(String)),
        Field("version", Int64),
        Field("timestamp", Int64),
    ),
)
