"""DescribeAcls (29): request and response.

KIPs: 140 (ACLs by API), 290 (prefixed patterns).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 adds resource pattern type.
# Version 2 enables flexible versions.
# Version 3 adds user resource type.
DESCRIBE_ACLS_REQUEST = Schema(
    "DescribeAclsRequest",
    api_key=29,
    versions="1-3",
    flexible="2+",
    fields=(
        Field("resource_type_filter", Int8),
        Field("resource_name_filter", String, nullable="0+"),
        Field("pattern_type_filter", Int8, "1+", default=3),
        Field("principal_filter", String, nullable="0+"),
        Field("host_filter", String, nullable="0+"),
        Field("operation", Int8),
        Field("permission_type", Int8),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 adds PatternType.
# Starting in version 1, on quota violation, brokers send out responses before throttling.
# Version 2 enables flexible versions.
# Version 3 adds user resource type.
DESCRIBE_ACLS_RESPONSE = Schema(
    "DescribeAclsResponse",
    api_key=29,
    versions="1-3",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
        Field(
            "resources",
            ArrayOf(
                Structure(
                    "DescribeAclsResource",
                    Field("resource_type", Int8),
                    Field("resource_name", String),
                    Field("pattern_type", Int8, "1+", default=3),
                    Field(
                        "acls",
                        ArrayOf(
                            Structure(
                                "AclDescription",
                                Field("principal", String),
                                Field("host", String),
                                Field("operation", Int8),
                                Field("permission_type", Int8),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
