"""DescribeProducers (61): request and response.

KIPs: 664 (hanging transactions).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String

DESCRIBE_PRODUCERS_REQUEST = Schema(
    "DescribeProducersRequest",
    api_key=61,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "TopicRequest",
                    Field("name", String),
                    Field("partition_indexes", ArrayOf(Int32)),
                )
            ),
        ),
    ),
)

DESCRIBE_PRODUCERS_RESPONSE = Schema(
    "DescribeProducersResponse",
    api_key=61,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "TopicResponse",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionResponse",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("error_message", String, nullable="0+", default=None),
                                Field(
                                    "active_producers",
                                    ArrayOf(
                                        Structure(
                                            "ProducerState",
                                            Field("producer_id", Int64),
                                            Field("producer_epoch", Int32),
                                            Field("last_sequence", Int32, default=-1),
                                            Field("last_timestamp", Int64, default=-1),
                                            Field("coordinator_epoch", Int32),
                                            Field("current_txn_start_offset", Int64, default=-1),
                                        )
                                    ),
                                ),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
