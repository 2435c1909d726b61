"""Which requests speak transaction version 2 (KIP-890 part 2), by API and version.

Owns: the level, and the first version of each API whose client expects it. As in Kafka a request's transaction version
comes with the version of its API; the finalized feature `transaction.version` decides for what no client asked for.
A table and no function: Produce and EndTxn compare with their number, and make no call for it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from oncelog.protocol.api_keys import ApiKey

TRANSACTION_V2 = 2
"""The level of `transaction.version` from which on every end bumps the epoch."""

TRANSACTION_V2_SINCE: Mapping[ApiKey, int] = MappingProxyType(
    {
        ApiKey.PRODUCE: 12,  # adds its partitions to the transaction by itself
        ApiKey.ADD_PARTITIONS_TO_TXN: 4,  # sent by brokers, which add for a Produce or TxnOffsetCommit of version 2
        ApiKey.END_TXN: 5,  # answers the epoch to go on with
        ApiKey.TXN_OFFSET_COMMIT: 5,  # adds the group's partition to the transaction by itself
    }
)
"""The first version of each API that speaks transaction version 2; WriteTxnMarkers names the version of each marker."""
