"""RegisterBrokerRecord: a record of metadata.

KIPs: 631 (metadata records), 841 (controlled shutdown), 858 (directories), 1066 (cordoned directories).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, Int64, String, UInt16, Uuid

# Version 1 adds InControlledShutdown
# Version 2 adds IsMigratingZkBroker
# Version 3 adds LogDirs
# Version 4 adds CordonedLogDirs
REGISTER_BROKER_RECORD = Schema(
    "RegisterBrokerRecord",
    api_key=0,
    versions="0-4",
    flexible="0+",
    fields=(
        Field("broker_id", Int32),
        Field("is_migrating_zk_broker", Boolean, "2+", default=False),
        Field("incarnation_id", Uuid),
        Field("broker_epoch", Int64),
        Field(
            "end_points",
            ArrayOf(
                Structure(
                    "BrokerEndpoint",
                    Field("name", String),
                    Field("host", String),
                    Field("port", UInt16),
                    Field("security_protocol", Int16),
                )
            ),
        ),
        Field(
            "features",
            ArrayOf(
                Structure(
                    "BrokerFeature",
                    Field("name", String),
                    Field("min_supported_version", Int16),
                    Field("max_supported_version", Int16),
                )
            ),
        ),
        Field("rack", String, nullable="0+"),
        Field("fenced", Boolean, default=True),
        Field("in_controlled_shutdown", Boolean, "1+", default=False),
        Field("log_dirs", ArrayOf(Uuid), "3+", tag=0, tagged="3+"),
        Field("cordoned_log_dirs", ArrayOf(Uuid), "4+", nullable="4+", default=None, tag=1, tagged="4+"),
    ),
)
