"""UpdateFeatures (57): request and response.

KIPs: 584 (features), 778 (kinds of upgrade), 1022 (one answer for all).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, String

# Version 1 adds validate only field.
#
# Version 2 changes the response to not return feature level results.
UPDATE_FEATURES_REQUEST = Schema(
    "UpdateFeaturesRequest",
    api_key=57,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("timeout_ms", Int32, default=60000),
        Field(
            "feature_updates",
            ArrayOf(
                Structure(
                    "FeatureUpdateKey",
                    Field("feature", String),
                    Field("max_version_level", Int16),
                    Field("allow_downgrade", Boolean, "0"),
                    Field("upgrade_type", Int8, "1+", default=1),
                )
            ),
        ),
        Field("validate_only", Boolean, "1+", default=False),
    ),
)

UPDATE_FEATURES_RESPONSE = Schema(
    "UpdateFeaturesResponse",
    api_key=57,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "UpdatableFeatureResult",
                    Field("feature", String),
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+"),
                )
            ),
            "0-1",
        ),
    ),
)
