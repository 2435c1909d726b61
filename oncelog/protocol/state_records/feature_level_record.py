"""FeatureLevelRecord: a record of metadata.

KIPs: 584 (features), 631 (metadata records).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int16, String

# Note: New metadata logs and snapshots begin with a FeatureLevelRecord which specifies the
# metadata level that is required to read them. The version of that record cannot advance
# beyond 0, for backwards compatibility reasons.
FEATURE_LEVEL_RECORD = Schema(
    "FeatureLevelRecord",
    api_key=12,
    versions="0",
    flexible="0+",
    fields=(
        Field("name", String),
        Field("feature_level", Int16),
    ),
)
