"""ApiVersions (18): request and response.

KIPs: 35 (version negotiation), 511 (client's name and version), 584 (features).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, Int64, String

# Versions 0 through 2 of ApiVersionsRequest are the same.
#
# Version 3 is the first flexible version and adds ClientSoftwareName and ClientSoftwareVersion.
#
# Version 4 fixes KAFKA-17011, which blocked SupportedFeatures.MinVersion in the response from being 0.
API_VERSIONS_REQUEST = Schema(
    "ApiVersionsRequest",
    api_key=18,
    versions="0-4",
    flexible="3+",
    fields=(
        Field("client_software_name", String, "3+"),
        Field("client_software_version", String, "3+"),
    ),
)

# Version 1 adds throttle time to the response.
#
# Starting in version 2, on quota violation, brokers send out responses before throttling.
#
# Version 3 is the first flexible version. Tagged fields are only supported in the body but
# not in the header. The length of the header must not change in order to guarantee the
# backward compatibility.
#
# Starting from Apache Kafka 2.4 (KIP-511), ApiKeys field is populated with the supported
# versions of the ApiVersionsRequest when an UNSUPPORTED_VERSION error is returned.
#
# Version 4 fixes KAFKA-17011, which blocked SupportedFeatures.MinVersion from being 0.
API_VERSIONS_RESPONSE = Schema(
    "ApiVersionsResponse",
    api_key=18,
    versions="0-4",
    flexible="3+",
    fields=(
        Field("error_code", Int16),
        Field(
            "api_keys",
            ArrayOf(
                Structure(
                    "ApiVersion",
                    Field("api_key", Int16),
                    Field("min_version", Int16),
                    Field("max_version", Int16),
                )
            ),
        ),
        Field("throttle_time_ms", Int32, "1+"),
        Field(
            "supported_features",
            ArrayOf(
                Structure(
                    "SupportedFeatureKey",
                    Field("name", String, "3+"),
                    Field("min_version", Int16, "3+"),
                    Field("max_version", Int16, "3+"),
                )
            ),
            "3+",
            tag=0,
            tagged="3+",
        ),
        Field("finalized_features_epoch", Int64, "3+", default=-1, tag=1, tagged="3+"),
        Field(
            "finalized_features",
            ArrayOf(
                Structure(
                    "FinalizedFeatureKey",
                    Field("name", String, "3+"),
                    Field("max_version_level", Int16, "3+"),
                    Field("min_version_level", Int16, "3+"),
                )
            ),
            "3+",
            tag=2,
            tagged="3+",
        ),
        Field("zk_migration_ready", Boolean, "3+", default=False, tag=3, tagged="3+"),
    ),
)
