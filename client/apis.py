"""The requests that the client sends: one typed entry per API, with the versions this client supports.

Owns: the upper bounds. Produce 12, EndTxn 5 and TxnOffsetCommit 5 select the second transaction protocol (KIP-890),
which may be used only where the broker has finalized `transaction.version` 2: each has an entry for either protocol.
Fetch (12), OffsetCommit and OffsetFetch (9) stay at topic names, FindCoordinator at its single-item form.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import (
    add_offsets_to_txn_request,
    add_offsets_to_txn_response,
    add_partitions_to_txn_request,
    add_partitions_to_txn_response,
    api_versions_request,
    api_versions_response,
    create_topics_request,
    create_topics_response,
    delete_topics_request,
    delete_topics_response,
    describe_configs_request,
    describe_configs_response,
    end_txn_request,
    end_txn_response,
    fetch_request,
    fetch_response,
    find_coordinator_request,
    find_coordinator_response,
    heartbeat_request,
    heartbeat_response,
    init_producer_id_request,
    init_producer_id_response,
    join_group_request,
    join_group_response,
    leave_group_request,
    leave_group_response,
    list_offsets_request,
    list_offsets_response,
    metadata_request,
    metadata_response,
    offset_commit_request,
    offset_commit_response,
    offset_fetch_request,
    offset_fetch_response,
    produce_request,
    produce_response,
    sync_group_request,
    sync_group_response,
    txn_offset_commit_request,
    txn_offset_commit_response,
)
from oncelog.protocol.message import Data

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Api(Generic[RequestT, ResponseT]):
    key: ApiKey
    encode: Callable[[RequestT, int], list[Data]]
    decode: Callable[[memoryview, int, int], tuple[ResponseT, int]]
    flexible_from: int | None
    minimum: int
    maximum: int

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def answers_flexibly(self, version: int) -> bool:
        """ApiVersions must be readable before the versions are known (KIP-511)."""
        return self.key != ApiKey.API_VERSIONS and self.is_flexible(version)


PRODUCE = Api(ApiKey.PRODUCE, produce_request.encode, produce_response.decode, produce_request.FLEXIBLE_FROM, 3, 12)
PRODUCE_V1 = replace(PRODUCE, maximum=11)
FETCH = Api(ApiKey.FETCH, fetch_request.encode, fetch_response.decode, fetch_request.FLEXIBLE_FROM, 4, 12)
LIST_OFFSETS = Api(
    ApiKey.LIST_OFFSETS,
    list_offsets_request.encode,
    list_offsets_response.decode,
    list_offsets_request.FLEXIBLE_FROM,
    2,
    7,
)
METADATA = Api(
    ApiKey.METADATA, metadata_request.encode, metadata_response.decode, metadata_request.FLEXIBLE_FROM, 1, 12
)
API_VERSIONS = Api(
    ApiKey.API_VERSIONS,
    api_versions_request.encode,
    api_versions_response.decode,
    api_versions_request.FLEXIBLE_FROM,
    0,
    3,
)
FIND_COORDINATOR = Api(
    ApiKey.FIND_COORDINATOR,
    find_coordinator_request.encode,
    find_coordinator_response.decode,
    find_coordinator_request.FLEXIBLE_FROM,
    1,
    3,
)
INIT_PRODUCER_ID = Api(
    ApiKey.INIT_PRODUCER_ID,
    init_producer_id_request.encode,
    init_producer_id_response.decode,
    init_producer_id_request.FLEXIBLE_FROM,
    0,
    5,
)
INIT_TWO_PHASE_COMMIT = Api(
    ApiKey.INIT_PRODUCER_ID,
    init_producer_id_request.encode,
    init_producer_id_response.decode,
    init_producer_id_request.FLEXIBLE_FROM,
    6,
    6,
)
"""The same request, where a field that older versions lack must not be dropped (KIP-939)."""
ADD_PARTITIONS_TO_TXN = Api(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    add_partitions_to_txn_request.encode,
    add_partitions_to_txn_response.decode,
    add_partitions_to_txn_request.FLEXIBLE_FROM,
    0,
    3,
)
ADD_OFFSETS_TO_TXN = Api(
    ApiKey.ADD_OFFSETS_TO_TXN,
    add_offsets_to_txn_request.encode,
    add_offsets_to_txn_response.decode,
    add_offsets_to_txn_request.FLEXIBLE_FROM,
    0,
    3,
)
END_TXN = Api(ApiKey.END_TXN, end_txn_request.encode, end_txn_response.decode, end_txn_request.FLEXIBLE_FROM, 0, 5)
END_TXN_V1 = replace(END_TXN, maximum=4)
TXN_OFFSET_COMMIT = Api(
    ApiKey.TXN_OFFSET_COMMIT,
    txn_offset_commit_request.encode,
    txn_offset_commit_response.decode,
    txn_offset_commit_request.FLEXIBLE_FROM,
    0,
    5,
)
TXN_OFFSET_COMMIT_V1 = replace(TXN_OFFSET_COMMIT, maximum=4)
JOIN_GROUP = Api(
    ApiKey.JOIN_GROUP, join_group_request.encode, join_group_response.decode, join_group_request.FLEXIBLE_FROM, 0, 7
)
SYNC_GROUP = Api(
    ApiKey.SYNC_GROUP, sync_group_request.encode, sync_group_response.decode, sync_group_request.FLEXIBLE_FROM, 0, 5
)
HEARTBEAT = Api(
    ApiKey.HEARTBEAT, heartbeat_request.encode, heartbeat_response.decode, heartbeat_request.FLEXIBLE_FROM, 0, 4
)
LEAVE_GROUP = Api(
    ApiKey.LEAVE_GROUP, leave_group_request.encode, leave_group_response.decode, leave_group_request.FLEXIBLE_FROM, 0, 4
)
OFFSET_COMMIT = Api(
    ApiKey.OFFSET_COMMIT,
    offset_commit_request.encode,
    offset_commit_response.decode,
    offset_commit_request.FLEXIBLE_FROM,
    2,
    9,
)
OFFSET_FETCH = Api(
    ApiKey.OFFSET_FETCH,
    offset_fetch_request.encode,
    offset_fetch_response.decode,
    offset_fetch_request.FLEXIBLE_FROM,
    1,
    9,
)
CREATE_TOPICS = Api(
    ApiKey.CREATE_TOPICS,
    create_topics_request.encode,
    create_topics_response.decode,
    create_topics_request.FLEXIBLE_FROM,
    2,
    7,
)
DELETE_TOPICS = Api(
    ApiKey.DELETE_TOPICS,
    delete_topics_request.encode,
    delete_topics_response.decode,
    delete_topics_request.FLEXIBLE_FROM,
    1,
    5,
)
DESCRIBE_CONFIGS = Api(
    ApiKey.DESCRIBE_CONFIGS,
    describe_configs_request.encode,
    describe_configs_response.decode,
    describe_configs_request.FLEXIBLE_FROM,
    1,
    4,
)
