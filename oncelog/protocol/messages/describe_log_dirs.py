"""DescribeLogDirs (35): request and response.

KIPs: 113 (several log directories), 827 (sizes of volumes).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, Int64, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 is the same as version 0.
# Version 2 is the first flexible version.
# Version 3 is the same as version 2 (new field in response).
# Version 4 is the same as version 2 (new fields in response).
# Version 5 is the same as version 2 (new fields in response).
DESCRIBE_LOG_DIRS_REQUEST = Schema(
    "DescribeLogDirsRequest",
    api_key=35,
    versions="1-5",
    flexible="2+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "DescribableLogDirTopic",
                    Field("topic", String),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
            nullable="0+",
        ),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Starting in version 1, on quota violation, brokers send out responses before throttling.
# Version 2 is the first flexible version.
# Version 3 adds the top-level ErrorCode field
# Version 4 adds the TotalBytes and UsableBytes fields
# Version 5 adds IsCordoned field
DESCRIBE_LOG_DIRS_RESPONSE = Schema(
    "DescribeLogDirsResponse",
    api_key=35,
    versions="1-5",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16, "3+"),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "DescribeLogDirsResult",
                    Field("error_code", Int16),
                    Field("log_dir", String),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "DescribeLogDirsTopic",
                                Field("name", String),
                                Field(
                                    "partitions",
                                    ArrayOf(
                                        Structure(
                                            "DescribeLogDirsPartition",
                                            Field("partition_index", Int32),
                                            Field("partition_size", Int64),
                                            Field("offset_lag", Int64),
                                            Field("is_future_key", Boolean),
                                        )
                                    ),
                                ),
                            )
                        ),
                    ),
                    Field("total_bytes", Int64, "4+", default=-1),
                    Field("usable_bytes", Int64, "4+", default=-1),
                    Field("is_cordoned", Boolean, "5+", default=False),
                )
            ),
        ),
    ),
)
