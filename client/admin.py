"""Topics, configs, offsets and transactions of a cluster.

Owns: one method per request, returning plain values. Does not own: retries (`cluster`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from uuid import UUID

from oncelog.client.apis import (
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CONFIGS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
    Api,
    RequestT,
    ResponseT,
)
from oncelog.client.cluster import Cluster, CoordinatorKind, Purpose, Topic
from oncelog.client.deadline import Deadline
from oncelog.client.errors import error_for, raise_for
from oncelog.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, IsolationLevel, fetch_committed, list_offsets
from oncelog.client.records import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.describe_producers_request import DescribeProducersRequest, TopicRequest
from oncelog.protocol.generated.describe_producers_response import ProducerState
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_TOPIC_RESOURCE = 2
_BROKER_RESOURCE = 4
_FENCE_TIMEOUT_MS = 60_000
"""The next instance sets its own."""
_SPECS = {"latest": LATEST, "earliest": EARLIEST, "max_timestamp": MAX_TIMESTAMP}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 means the broker's default. `NewTopic("t", partition_count=3, configs={"retention.ms":
    "-1"})`."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic as the cluster's metadata describes it."""

    name: str
    topic_id: UUID
    leaders: tuple[int, ...]
    """Node id of each partition's leader."""
    is_internal: bool

    @property
    def partition_count(self) -> int:
        """Number of partitions."""
        return len(self.leaders)


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id, controller, nodes (id to host and port) and finalized feature levels."""

    cluster_id: str | None
    controller_id: int
    nodes: Mapping[int, tuple[str, int]]
    finalized_features: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transaction as its coordinator describes it; `start_time_ms` is milliseconds since the epoch, -1 if none is
    open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int = -1


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """One transactional id as ListTransactions reports it, with the node that coordinates it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class Admin:
    """Manages topics, and inspects configs, offsets and transactions.

        async with Admin("host:9092") as admin:
            await admin.create_topics(NewTopic("topic", partition_count=3))

    Times are in milliseconds; `default_api_timeout_ms` limits a call with all its retries. Every call raises
    RequestTimedOut or ConnectionLost if no broker responds in time, and the KafkaError of an error response; it raises
    InvalidState once closed.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] = "localhost:9092",
        *,
        request_timeout_ms: float = 30_000,
        default_api_timeout_ms: float = 60_000,
        retry_backoff_ms: float = 100,
        bootstrap_timeout_ms: float = 1_000,
        client_id: str = "oncelog-admin",
    ) -> None:
        self._api_timeout_ms = default_api_timeout_ms
        self._bootstrap_timeout_ms = bootstrap_timeout_ms
        self._cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
        )

    async def __aenter__(self) -> Self:
        await self._cluster.bootstrap(self._deadline(), self._bootstrap_timeout_ms)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect. Leaving the `async with` block calls it."""
        await self._cluster.close()

    # --- topics -------------------------------------------------------------------------------------------------------

    async def create_topics(self, *topics: NewTopic | str, exist_ok: bool = False) -> None:
        """Create topics, by name or as NewTopic, and wait for their leaders.

            await admin.create_topics("events", NewTopic("totals", partition_count=3), exist_ok=True)

        Raises ConfigError with code TOPIC_ALREADY_EXISTS (with `exist_ok`, existing topics are left unchanged),
        INVALID_CONFIG and the like.
        """
        deadline = self._deadline()
        wanted = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partition_count,
                    replication_factor=topic.replication_factor,
                    configs=[CreatableTopicConfig(*each) for each in topic.configs.items()],
                )
                for topic in wanted
            ],
            timeout_ms=int(self._api_timeout_ms),
        )
        response = await self._call_controller(CREATE_TOPICS, request, deadline)
        for result in response.topics:
            if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and exist_ok:
                continue
            raise_for(result.error_code, f"topic {result.name!r}: {result.error_message or ''}")
        for topic in wanted:
            self._cluster.forget_leaders((topic.name,))
            await self._cluster.topic(topic.name, deadline, exists=True)

    async def delete_topics(self, *names: str) -> None:
        """Delete topics with their records. Raises UNKNOWN_TOPIC_OR_PARTITION (a RetriableError) for the first that
        does not exist."""
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=int(self._api_timeout_ms))
        response = await self._call_controller(DELETE_TOPICS, request, self._deadline())
        for result in response.responses:
            raise_for(result.error_code, f"topic {result.name!r}: {result.error_message or ''}")
        self._cluster.forget_leaders(names)

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Names of all topics, sorted; with `include_internal`, also Kafka's own (__consumer_offsets, ...)."""
        response = await self._cluster.refresh(None, self._deadline())
        return sorted(
            topic.name for topic in response.topics if topic.name and (include_internal or not topic.is_internal)
        )

    async def describe_topics(self, *names: str) -> list[TopicDescription]:
        """Describe these topics, or all. Raises UNKNOWN_TOPIC_OR_PARTITION (a RetriableError) if one does not exist."""
        response = await self._cluster.refresh(names or None, self._deadline())
        chosen = names or [topic.name for topic in response.topics if topic.name]
        return [_description(self._require_known(name)) for name in chosen]

    async def _require(self, names: Collection[str], deadline: Deadline) -> None:
        """Raise UNKNOWN_TOPIC_OR_PARTITION at once for a topic that does not exist, without creating it."""
        await self._cluster.refresh(names, deadline)
        for name in names:
            self._require_known(name)

    def _require_known(self, name: str) -> Topic:
        topic = self._cluster.topics.get(name)
        if topic is None:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        return topic

    async def describe_configs(self, *, topic: str | None = None, node_id: int | None = None) -> dict[str, str | None]:
        """All settings of a topic or of a node (default: any node).

            configs = await admin.describe_configs(topic="events")
            retention_ms = int(configs["retention.ms"])

        A value is None for a secret. Raises UNKNOWN_TOPIC_OR_PARTITION (a RetriableError) if the topic does not exist.
        """
        deadline = self._deadline()
        if topic is not None:
            resource = DescribeConfigsResource(_TOPIC_RESOURCE, topic, None)
        else:
            node_id = next(iter(self._cluster.nodes)) if node_id is None else node_id
            resource = DescribeConfigsResource(_BROKER_RESOURCE, str(node_id), None)
        request = DescribeConfigsRequest(resources=[resource])
        if node_id is None:
            response = await self._cluster.call_any(DESCRIBE_CONFIGS, request, deadline)
        else:
            response = await self._cluster.call_node(node_id, DESCRIBE_CONFIGS, request, deadline)
        result = response.results[0]
        raise_for(result.error_code, result.error_message or "")
        return {each.name: each.value for each in result.configs}

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster id, controller, nodes and features."""
        deadline = self._deadline()
        await self._cluster.refresh((), deadline)
        transport = await self._cluster.any_transport(deadline)
        return ClusterDescription(
            self._cluster.cluster_id,
            self._cluster.controller_id,
            dict(self._cluster.nodes),
            dict(transport.connection.finalized_features),
        )

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        at: str | int = "latest",
        *,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Look up offsets; `at` is "latest" (the last stable offset at read_committed), "earliest", "max_timestamp", or
        a time in milliseconds since the epoch.

            ends = await admin.list_offsets([TopicPartition("events", 0)])

        An offset is -1 if no record matches. Raises UNKNOWN_TOPIC_OR_PARTITION (a RetriableError) if a topic does not
        exist.
        """
        when = _SPECS[at] if isinstance(at, str) else at
        wanted, deadline = dict.fromkeys(partitions, when), self._deadline()
        await self._require({each.topic for each in wanted}, deadline)
        return await list_offsets(self._cluster, wanted, isolation_level, deadline)

    async def list_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, require_stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets of these partitions; those without one are left out. With `require_stable` it
        waits for open transactions that hold offsets of the group (KIP-447)."""
        return await fetch_committed(
            self._cluster, group_id, partitions, self._deadline(), require_stable=require_stable
        )

    # --- transactions -------------------------------------------------------------------------------------------------

    async def describe_producers(self, topic_partition: TopicPartition) -> list[ProducerState]:
        """The producers that the partition's leader keeps state for. Raises as `list_offsets`."""
        deadline = self._deadline()
        await self._require((topic_partition.topic,), deadline)
        request = DescribeProducersRequest(topics=[TopicRequest(topic_partition.topic, (topic_partition.partition,))])
        node_id = self._cluster.leader(topic_partition)
        response = await self._cluster.call_node(node_id, DESCRIBE_PRODUCERS, request, deadline)
        answer = response.topics[0].partitions[0]
        raise_for(answer.error_code, answer.error_message or "")
        return list(answer.active_producers)

    async def list_transactions(self, *, states: Sequence[str] = ()) -> dict[str, str]:
        """States by transactional id, from all coordinators: `{"mover": "Ongoing"}`. `states` filters, as in
        `find_transactions`."""
        return {each.transactional_id: each.state for each in await self.find_transactions(states=states)}

    async def find_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> list[ListedTransaction]:
        """The transactional ids of all coordinators that pass every filter: in one of `states` ("Ongoing",
        "PrepareCommit", ...), of one of `producer_ids`, running for longer than `duration_ms`, and whose whole id
        matches `pattern`, a regular expression in the broker's dialect (RE2 in Kafka). Raises FatalError if the broker
        does not know a filter."""
        deadline = self._deadline()
        found: list[ListedTransaction] = []
        await self._cluster.refresh((), deadline)
        request = ListTransactionsRequest(
            state_filters=states,
            producer_id_filters=producer_ids,
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )
        for node_id in sorted(self._cluster.nodes):
            response = await self._cluster.call_node(node_id, LIST_TRANSACTIONS, request, deadline)
            raise_for(response.error_code)
            found += [
                ListedTransaction(each.transactional_id, node_id, each.producer_id, each.transaction_state)
                for each in response.transaction_states
            ]
        return sorted(found, key=lambda each: each.transactional_id)

    async def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        """State, producer and partitions of one transactional id. Raises TRANSACTIONAL_ID_NOT_FOUND as a
        ConfigError."""
        response = await self._cluster.call_coordinator(
            CoordinatorKind.TRANSACTION,
            transactional_id,
            DESCRIBE_TRANSACTIONS,
            DescribeTransactionsRequest(transactional_ids=(transactional_id,)),
            self._deadline(),
            lambda each: each.transaction_states[0].error_code,
        )
        state = response.transaction_states[0]
        raise_for(state.error_code, f"transactional id {transactional_id!r}")
        return TransactionDescription(
            state.transactional_id,
            state.transaction_state,
            state.producer_id,
            state.producer_epoch,
            state.transaction_timeout_ms,
            state.transaction_start_time_ms,
            tuple(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
            self._cluster.known_coordinator(CoordinatorKind.TRANSACTION, transactional_id),
        )

    async def abort_on_partition(
        self, topic_partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> None:
        """Write an ABORT marker to one partition, for a hanging transaction that no coordinator knows any more.

        Producer id, epoch and coordinator epoch are those that `describe_producers` reports; no coordinator is
        involved. Raises INVALID_PRODUCER_EPOCH (as ProducerFenced) and TRANSACTION_COORDINATOR_FENCED for stale epochs.
        """
        deadline = self._deadline()
        await self._require((topic_partition.topic,), deadline)
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(topic_partition.topic, (topic_partition.partition,))],
            coordinator_epoch=coordinator_epoch,
        )
        response = await self._cluster.call_node(
            self._cluster.leader(topic_partition),
            WRITE_TXN_MARKERS,
            WriteTxnMarkersRequest(markers=[marker]),
            deadline,
        )
        raise_for(
            response.markers[0].topics[0].partitions[0].error_code,
            f"partition {topic_partition.partition} of topic {topic_partition.topic!r}",
        )

    async def fence_producer(self, transactional_id: str) -> tuple[int, int]:
        """Abort the open transaction of a transactional id and fence its producer. Returns the new producer id and
        epoch, which no producer uses."""
        response = await self._cluster.call_coordinator(
            CoordinatorKind.TRANSACTION,
            transactional_id,
            INIT_PRODUCER_ID,
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCE_TIMEOUT_MS),
            self._deadline(),
            lambda each: each.error_code,
        )
        raise_for(response.error_code, f"transactional id {transactional_id!r}")
        return response.producer_id, response.producer_epoch

    # ------------------------------------------------------------------------------------------------------------------

    def _deadline(self) -> Deadline:
        return Deadline.after(self._api_timeout_ms)

    async def _call_controller(self, api: Api[RequestT, ResponseT], request: RequestT, deadline: Deadline) -> ResponseT:
        """Sent once: a retry of create or delete after a lost response would report a misleading error."""
        await self._cluster.refresh((), deadline)
        node_id = self._cluster.controller_id
        if node_id not in self._cluster.nodes:
            transport = await self._cluster.any_transport(deadline)
        else:
            transport = await self._cluster.transport(node_id, Purpose.DATA, deadline)
        return await transport.request(api, request, deadline.remaining_s)


def _description(topic: Topic) -> TopicDescription:
    return TopicDescription(topic.name, topic.topic_id, topic.leaders, topic.is_internal)
