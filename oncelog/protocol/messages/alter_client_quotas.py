"""AlterClientQuotas (49): request and response.

KIPs: 546 (quotas by API).
"""

from oncelog.protocol.messages.shared_structures import ENTITY_DATA
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Float64, Int16, Int32, String

# Version 1 enables flexible versions.
ALTER_CLIENT_QUOTAS_REQUEST = Schema(
    "AlterClientQuotasRequest",
    api_key=49,
    versions="0-1",
    flexible="1+",
    fields=(
        Field(
            "entries",
            ArrayOf(
                Structure(
                    "EntryData",
                    Field("entity", ArrayOf(ENTITY_DATA)),
                    Field(
                        "ops",
                        ArrayOf(
                            Structure(
                                "OpData",
                                Field("key", String),
                                Field("value", Float64),
                                Field("remove", Boolean),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("validate_only", Boolean),
    ),
)

# Version 1 enables flexible versions.
ALTER_CLIENT_QUOTAS_RESPONSE = Schema(
    "AlterClientQuotasResponse",
    api_key=49,
    versions="0-1",
    flexible="1+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "entries",
            ArrayOf(
                Structure(
                    "EntryData",
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+"),
                    Field("entity", ArrayOf(ENTITY_DATA)),
                )
            ),
        ),
    ),
)
