"""IncrementalAlterConfigs (44): request and response.

KIPs: 339 (configs changed one by one).
"""

from oncelog.protocol.messages.shared_structures import ALTER_CONFIGS_RESOURCE_RESPONSE
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int32, String

# Version 1 is the first flexible version.
INCREMENTAL_ALTER_CONFIGS_REQUEST = Schema(
    "IncrementalAlterConfigsRequest",
    api_key=44,
    versions="0-1",
    flexible="1+",
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
                                Field("config_operation", Int8),
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

# Version 1 is the first flexible version.
INCREMENTAL_ALTER_CONFIGS_RESPONSE = Schema(
    "IncrementalAlterConfigsResponse",
    api_key=44,
    versions="0-1",
    flexible="1+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("responses", ArrayOf(ALTER_CONFIGS_RESOURCE_RESPONSE)),
    ),
)
