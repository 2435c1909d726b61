"""ProducerIdsRecord: a record of metadata.

KIPs: 631 (metadata records), 730 (producer ids from the controller).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, Int64

PRODUCER_IDS_RECORD = Schema(
    "ProducerIdsRecord",
    api_key=15,
    versions="0",
    flexible="0+",
    fields=(
        Field("broker_id", Int32),
        Field("broker_epoch", Int64, default=-1),
        Field("next_producer_id", Int64),
    ),
)
