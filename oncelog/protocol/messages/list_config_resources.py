"""ListConfigResources (74): request and response.

KIPs: 714 (clients' metrics), 1142 (every kind of resource).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, String

# Version 0 is used as ListClientMetricsResourcesRequest which only lists client metrics resources.
# Version 1 adds ResourceTypes field (KIP-1142). If there is no specified ResourceTypes, it should return all
# configuration resources.
LIST_CONFIG_RESOURCES_REQUEST = Schema(
    "ListConfigResourcesRequest",
    api_key=74,
    versions="0-1",
    flexible="0+",
    fields=(Field("resource_types", ArrayOf(Int8), "1+"),),
)

# Version 0 is used as ListClientMetricsResourcesResponse which returns all client metrics resources.
# Version 1 adds ResourceType to ConfigResources (KIP-1142).
LIST_CONFIG_RESOURCES_RESPONSE = Schema(
    "ListConfigResourcesResponse",
    api_key=74,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field(
            "config_resources",
            ArrayOf(
                Structure(
                    "ConfigResource",
                    Field("resource_name", String),
                    Field("resource_type", Int8, "1+", default=16),
                )
            ),
        ),
    ),
)
