"""TransactionLogKey: a record of transaction-coordinator.

KIPs: 98 (transactions).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

TRANSACTION_LOG_KEY = Schema(
    "TransactionLogKey",
    api_key=0,
    versions="0",
    flexible="",
    fields=(Field("transactional_id", String, "0"),),
)
