"""The requests of producers.

Produce 12, EndTxn 5 and TxnOffsetCommit 5 select the second transaction protocol (KIP-890), which may be used only
where the broker has finalized `transaction.version` 2: each has an entry for either protocol.
"""

from dataclasses import replace

from oncelog.client.wire.apis import api_of
from oncelog.protocol.generated import (
    add_offsets_to_txn_request,
    add_offsets_to_txn_response,
    add_partitions_to_txn_request,
    add_partitions_to_txn_response,
    end_txn_request,
    end_txn_response,
    init_producer_id_request,
    init_producer_id_response,
    produce_request,
    produce_response,
    txn_offset_commit_request,
    txn_offset_commit_response,
)

PRODUCE = api_of(produce_request, produce_response, 3, 12)
PRODUCE_V1 = replace(PRODUCE, maximum=11)
INIT_PRODUCER_ID = api_of(init_producer_id_request, init_producer_id_response, 0, 5)
INIT_TWO_PHASE_COMMIT = api_of(init_producer_id_request, init_producer_id_response, 6, 6)
"""InitProducerId in a version in which no field of two-phase commit is missing, so that none is dropped (KIP-939)."""
ADD_PARTITIONS_TO_TXN = api_of(add_partitions_to_txn_request, add_partitions_to_txn_response, 0, 3)
ADD_OFFSETS_TO_TXN = api_of(add_offsets_to_txn_request, add_offsets_to_txn_response, 0, 3)
END_TXN = api_of(end_txn_request, end_txn_response, 0, 5)
END_TXN_V1 = replace(END_TXN, maximum=4)
TXN_OFFSET_COMMIT = api_of(txn_offset_commit_request, txn_offset_commit_response, 0, 5)
TXN_OFFSET_COMMIT_V1 = replace(TXN_OFFSET_COMMIT, maximum=4)
