"""CreateAcls (30): request and response.

KIPs: 140 (ACLs by API), 290 (prefixed patterns).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 adds resource pattern type.
# Version 2 enables flexible versions.
# Version 3 adds user resource type.
CREATE_ACLS_REQUEST = Schema(
    "CreateAclsRequest",
    api_key=30,
    versions="1-3",
    flexible="2+",
    fields=(
        Field(
            "creations",
            ArrayOf(
                Structure(
                    "AclCreation",
                    Field("resource_type", Int8),
                    Field("resource_name", String),
                    Field("resource_pattern_type", Int8, "1+", default=3),
                    Field("principal", String),
                    Field("host", String),
                    Field("operation", Int8),
                    Field("permission_type", Int8),
                )
            ),
        ),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Starting in version 1, on quota violation, brokers send out responses before throttling.
# Version 2 enables flexible versions.
# Version 3 adds user resource type.
CREATE_ACLS_RESPONSE = Schema(
    "CreateAclsResponse",
    api_key=30,
    versions="1-3",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "AclCreationResult",
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+"),
                )
            ),
        ),
    ),
)
