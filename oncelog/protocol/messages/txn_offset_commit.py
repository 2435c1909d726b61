"""TxnOffsetCommit (28): request and response.

KIPs: 98 (transactions), 320 (leader epochs), 447 (members), 890 (TRANSACTION_ABORTABLE, implicit adds).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String

# Version 1 is the same as version 0.
#
# Version 2 adds the committed leader epoch.
#
# Version 3 adds the member.id, group.instance.id and generation.id.
#
# Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 5 is the same as version 4 (KIP-890). Note when TxnOffsetCommit requests are used in transaction, if
# transaction V2 (KIP-890 part 2) is enabled, the TxnOffsetCommit request will also include the function for a
# AddOffsetsToTxn call. If V2 is disabled, the client can't use TxnOffsetCommit request version higher than 4 within
# a transaction.
TXN_OFFSET_COMMIT_REQUEST = Schema(
    "TxnOffsetCommitRequest",
    api_key=28,
    versions="0-5",
    flexible="3+",
    fields=(
        Field("transactional_id", String),
        Field("group_id", String),
        Field("producer_id", Int64),
        Field("producer_epoch", Int16),
        Field("generation_id", Int32, "3+", default=-1),
        Field("member_id", String, "3+"),
        Field("group_instance_id", String, "3+", nullable="3+", default=None),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "TxnOffsetCommitRequestTopic",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "TxnOffsetCommitRequestPartition",
                                Field("partition_index", Int32),
                                Field("committed_offset", Int64),
                                Field("committed_leader_epoch", Int32, "2+", default=-1),
                                Field("committed_metadata", String, nullable="0+"),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Starting in version 1, on quota violation, brokers send out responses before throttling.
#
# Version 2 is the same as version 1.
#
# Version 3 adds illegal generation, fenced instance id, and unknown member id errors.
#
# Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 5 is the same with version 3 (KIP-890).
TXN_OFFSET_COMMIT_RESPONSE = Schema(
    "TxnOffsetCommitResponse",
    api_key=28,
    versions="0-5",
    flexible="3+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "TxnOffsetCommitResponseTopic",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "TxnOffsetCommitResponsePartition",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
