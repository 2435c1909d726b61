"""Produce (0): request and response.

KIPs: 98 (transactions), 110 (zstd), 467 (record errors), 516 (topic ids), 890 (partitions added implicitly), 951
(leaders in the answer).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, Records, String, Uuid

# Versions 0-2 were removed in Apache Kafka 4.0, version 3 is the new baseline. Due to a bug in librdkafka,
# these versions have to be included in the api versions response (see KAFKA-18659), but are rejected otherwise.
# See `ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION` for more details.
#
# Version 1 and 2 are the same as version 0.
#
# Version 3 adds the transactional ID, which is used for authorization when attempting to write
# transactional data.  Version 3 also adds support for Kafka Message Format v2.
#
# Version 4 is the same as version 3, but the requester must be prepared to handle a
# KAFKA_STORAGE_ERROR.
#
# Version 5 and 6 are the same as version 3.
#
# Starting in version 7, records can be produced using ZStandard compression.  See KIP-110.
#
# Starting in Version 8, response has RecordErrors and ErrorMessage. See KIP-467.
#
# Version 9 enables flexible versions.
#
# Version 10 is the same as version 9 (KIP-951).
#
# Version 11 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 12 is the same as version 11 (KIP-890). Note when produce requests are used in transaction, if
# transaction V2 (KIP-890 part 2) is enabled, the produce request will also include the function for a
# AddPartitionsToTxn call. If V2 is disabled, the client can't use produce request version higher than 11 within
# a transaction.
# Version 13 replaces topic names with topic IDs (KIP-516). May return UNKNOWN_TOPIC_ID error code.
PRODUCE_REQUEST = Schema(
    "ProduceRequest",
    api_key=0,
    versions="3-13",
    flexible="9+",
    fields=(
        Field("transactional_id", String, "3+", nullable="3+", default=None),
        Field("acks", Int16),
        Field("timeout_ms", Int32),
        Field(
            "topic_data",
            ArrayOf(
                Structure(
                    "TopicProduceData",
                    Field("name", String, "0-12"),
                    Field("topic_id", Uuid, "13+"),
                    Field(
                        "partition_data",
                        ArrayOf(
                            Structure(
                                "PartitionProduceData",
                                Field("index", Int32),
                                Field("records", Records, nullable="0+"),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Versions 0-2 were removed in Apache Kafka 4.0, version 3 is the new baseline. Due to a bug in librdkafka,
# these versions have to be included in the api versions response (see KAFKA-18659), but are rejected otherwise.
# See `ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION` for more details.
#
# Version 1 added the throttle time.
# Version 2 added the log append time.
#
# Version 3 is the same as version 2.
#
# Version 4 added KAFKA_STORAGE_ERROR as a possible error code.
#
# Version 5 added LogStartOffset to filter out spurious OutOfOrderSequenceExceptions on the client.
#
# Version 8 added RecordErrors and ErrorMessage to include information about
# records that cause the whole batch to be dropped.  See KIP-467 for details.
#
# Version 9 enables flexible versions.
#
# Version 10 adds 'CurrentLeader' and 'NodeEndpoints' as tagged fields (KIP-951)
#
# Version 11 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 12 is the same as version 10 (KIP-890).
# Version 13 replaces topic names with topic IDs (KIP-516). May return UNKNOWN_TOPIC_ID error code.
PRODUCE_RESPONSE = Schema(
    "ProduceResponse",
    api_key=0,
    versions="3-13",
    flexible="9+",
    fields=(
        Field(
            "responses",
            ArrayOf(
                Structure(
                    "TopicProduceResponse",
                    Field("name", String, "0-12"),
                    Field("topic_id", Uuid, "13+"),
                    Field(
                        "partition_responses",
                        ArrayOf(
                            Structure(
                                "PartitionProduceResponse",
                                Field("index", Int32),
                                Field("error_code", Int16),
                                Field("base_offset", Int64),
                                Field("log_append_time_ms", Int64, "2+", default=-1),
                                Field("log_start_offset", Int64, "5+", default=-1),
                                Field(
                                    "record_errors",
                                    ArrayOf(
                                        Structure(
                                            "BatchIndexAndErrorMessage",
                                            Field("batch_index", Int32, "8+"),
                                            Field(
                                                "batch_index_error_message", String, "8+", nullable="8+", default=None
                                            ),
                                        )
                                    ),
                                    "8+",
                                ),
                                Field("error_message", String, "8+", nullable="8+", default=None),
                                Field(
                                    "current_leader",
                                    Structure(
                                        "LeaderIdAndEpoch",
                                        Field("leader_id", Int32, "10+", default=-1),
                                        Field("leader_epoch", Int32, "10+", default=-1),
                                    ),
                                    "10+",
                                    tag=0,
                                    tagged="10+",
                                ),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("throttle_time_ms", Int32, "1+", default=0),
        Field(
            "node_endpoints",
            ArrayOf(
                Structure(
                    "NodeEndpoint",
                    Field("node_id", Int32, "10+"),
                    Field("host", String, "10+"),
                    Field("port", Int32, "10+"),
                    Field("rack", String, "10+", nullable="10+", default=None),
                )
            ),
            "10+",
            tag=0,
            tagged="10+",
        ),
    ),
)
