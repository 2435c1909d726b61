"""WriteTxnMarkers (27): request and response.

KIPs: 98 (transactions), 1228 (the marker's transaction version).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, Int64, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 enables flexible versions.
# Version 2 adds TransactionVersion field to the WritableTxnMarker (KIP-1228).
WRITE_TXN_MARKERS_REQUEST = Schema(
    "WriteTxnMarkersRequest",
    api_key=27,
    versions="1-2",
    flexible="1+",
    fields=(
        Field(
            "markers",
            ArrayOf(
                Structure(
                    "WritableTxnMarker",
                    Field("producer_id", Int64),
                    Field("producer_epoch", Int16),
                    Field("transaction_result", Boolean),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "WritableTxnMarkerTopic",
                                Field("name", String),
                                Field("partition_indexes", ArrayOf(Int32)),
                            )
                        ),
                    ),
                    Field("coordinator_epoch", Int32),
                    Field("transaction_version", Int8, "2+", default=0),
                )
            ),
        ),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 enables flexible versions.
# Version 2 matches WriteTxnMarkersRequest version 2 (KIP-1228).
WRITE_TXN_MARKERS_RESPONSE = Schema(
    "WriteTxnMarkersResponse",
    api_key=27,
    versions="1-2",
    flexible="1+",
    fields=(
        Field(
            "markers",
            ArrayOf(
                Structure(
                    "WritableTxnMarkerResult",
                    Field("producer_id", Int64),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "WritableTxnMarkerTopicResult",
                                Field("name", String),
                                Field(
                                    "partitions",
                                    ArrayOf(
                                        Structure(
                                            "WritableTxnMarkerPartitionResult",
                                            Field("partition_index", Int32),
                                            Field("error_code", Int16),
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
