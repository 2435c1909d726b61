"""DescribeClientQuotas (48): request and response.

KIPs: 546 (quotas by API).
"""

from oncelog.protocol.messages.shared_structures import ENTITY_DATA
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Float64, Int8, Int16, Int32, String

# Version 1 enables flexible versions.
DESCRIBE_CLIENT_QUOTAS_REQUEST = Schema(
    "DescribeClientQuotasRequest",
    api_key=48,
    versions="0-1",
    flexible="1+",
    fields=(
        Field(
            "components",
            ArrayOf(
                Structure(
                    "ComponentData",
                    Field("entity_type", String),
                    Field("match_type", Int8),
                    Field("match", String, nullable="0+"),
                )
            ),
        ),
        Field("strict", Boolean),
    ),
)

# Version 1 enables flexible versions.
DESCRIBE_CLIENT_QUOTAS_RESPONSE = Schema(
    "DescribeClientQuotasResponse",
    api_key=48,
    versions="0-1",
    flexible="1+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
        Field(
            "entries",
            ArrayOf(
                Structure(
                    "EntryData",
                    Field("entity", ArrayOf(ENTITY_DATA)),
                    Field(
                        "values",
                        ArrayOf(
                            Structure(
                                "ValueData",
                                Field("key", String),
                                Field("value", Float64),
                            )
                        ),
                    ),
                )
            ),
            nullable="0+",
        ),
    ),
)
