"""DeleteRecords (21): request and response.

KIPs: 107 (records deleted by API).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String

# Version 1 is the same as version 0.
# Version 2 is the first flexible version.
DELETE_RECORDS_REQUEST = Schema(
    "DeleteRecordsRequest",
    api_key=21,
    versions="0-2",
    flexible="2+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "DeleteRecordsTopic",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "DeleteRecordsPartition",
                                Field("partition_index", Int32),
                                Field("offset", Int64),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("timeout_ms", Int32),
    ),
)

# Starting in version 1, on quota violation, brokers send out responses before throttling.
# Version 2 is the first flexible version.
DELETE_RECORDS_RESPONSE = Schema(
    "DeleteRecordsResponse",
    api_key=21,
    versions="0-2",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "DeleteRecordsTopicResult",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "DeleteRecordsPartitionResult",
                                Field("partition_index", Int32),
                                Field("low_watermark", Int64),
                                Field("error_code", Int16),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
