"""DescribeCluster (60): request and response.

KIPs: 700 (clusters described apart from topics), 919 (controllers asked directly), 1073 (fenced brokers).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, String

# Version 1 adds EndpointType for KIP-919 support.
# Version 2 adds IncludeFencedBrokers for KIP-1073 support.
DESCRIBE_CLUSTER_REQUEST = Schema(
    "DescribeClusterRequest",
    api_key=60,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("include_cluster_authorized_operations", Boolean),
        Field("endpoint_type", Int8, "1+", default=1),
        Field("include_fenced_brokers", Boolean, "2+"),
    ),
)

# Version 1 adds the EndpointType field, and makes MISMATCHED_ENDPOINT_TYPE and
# UNSUPPORTED_ENDPOINT_TYPE valid top-level response error codes.
# Version 2 adds IsFenced field to Brokers for KIP-1073 support.
DESCRIBE_CLUSTER_RESPONSE = Schema(
    "DescribeClusterResponse",
    api_key=60,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+", default=None),
        Field("endpoint_type", Int8, "1+", default=1),
        Field("cluster_id", String),
        Field("controller_id", Int32, default=-1),
        Field(
            "brokers",
            ArrayOf(
                Structure(
                    "DescribeClusterBroker",
                    Field("broker_id", Int32),
                    Field("host", String),
                    Field("port", Int32),
                    Field("rack", String, nullable="0+", default=None),
                    Field("is_fenced", Boolean, "2+"),
                )
            ),
        ),
        Field("cluster_authorized_operations", Int32, default=-2147483648),
    ),
)
