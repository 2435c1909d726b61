"""AlterConfigs (33): request and response.

KIPs: 133 (configs by API).
"""

from oncelog.protocol.messages.shared_structures import ALTER_CONFIGS_RESOURCE_RESPONSE
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int32, String

# Version 1 is the same as version 0.
# Version 2 enables flexible versions.
ALTER_CONFIGS_REQUEST = Schema(
    "AlterConfigsRequest",
    api_key=33,
    versions="0-2",
    flexible="2+",
    fields=(
        Field(
            "resources",
            ArrayOf(
                Structure(
                    "AlterConfigsResource",
                    Field("resource_type", Int8),
                    Field("resource_name", String),
                    Field(
                        "configs",
                        ArrayOf(
                            Structure(
                                "AlterableConfig",
                                Field("name", String),
                                Field("value", String, nullable="0+"),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("validate_only", Boolean),
    ),
)

# Starting in version 1, on quota violation brokers send out responses before throttling.
# Version 2 enables flexible versions.
ALTER_CONFIGS_RESPONSE = Schema(
    "AlterConfigsResponse",
    api_key=33,
    versions="0-2",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("responses", ArrayOf(ALTER_CONFIGS_RESOURCE_RESPONSE)),
    ),
)
