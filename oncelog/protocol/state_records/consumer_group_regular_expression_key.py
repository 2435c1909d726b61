"""ConsumerGroupRegularExpressionKey: a record of group-coordinator.

KIPs: 848 (the consumer protocol).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Schema(
    "ConsumerGroupRegularExpressionKey",
    api_key=16,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("regular_expression", String, "0"),
    ),
)
