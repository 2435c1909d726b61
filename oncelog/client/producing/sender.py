"""Sends the accumulator's batches and completes each with its outcome.

Owns: which batches go into which Produce request and when (linger.ms, max.in.flight.requests.per.connection), the
verdict on each response, delivery.timeout.ms. Does not own: the order within a partition (`accumulator`), producer
identity and transactions (a `SendGate`). Invariant: one batch per partition and request, so that with at most five
requests in flight a broker, which caches five batches per producer, recognises every duplicate.

One callback per response and one timer in all: no task runs while records flow.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from oncelog.client.options.settings import ProducerSettings
from oncelog.client.producing.accumulator import Accumulator, PartitionQueue
from oncelog.client.producing.batch import Batch, ProducerIdentity
from oncelog.client.values.errors import AbortableError, ConnectionLost, DeliveryTimeout, KafkaError, error_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline, resolve
from oncelog.client.wire.apis import Api
from oncelog.client.wire.cluster import LEADER_MOVED, Cluster
from oncelog.client.wire.connections import Purpose
from oncelog.client.wire.transport import Transport
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.produce_response import PartitionProduceResponse, ProduceResponse

_NEVER_SENT = "delivery.timeout.ms passed: it was never sent, so sending it again does not double it"
_GAPS = frozenset((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID))


class SendGate(Protocol):
    """Decides whether a partition may be written to now, and under which identity."""

    transactional_id: str | None

    @property
    def produce_api(self) -> Api[ProduceRequest, ProduceResponse]:
        """The Produce API of the transaction protocol in use."""

    def identity(self) -> ProducerIdentity | None:
        """Return the identity; None while it is unknown: the gate then finds it out and wakes the sender."""

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition is in the transaction. If not, the gate adds it and wakes the sender."""

    def may_retry(self) -> bool:
        """Whether a failed batch may be sent again: not while the transaction is aborting."""

    def on_failed(self, batch: Batch, error: KafkaError) -> None:
        """Note that a batch failed for good."""


class Sender:
    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        settings: ProducerSettings,
        make_gate: "Callable[[Sender], SendGate]",
    ) -> None:
        """`make_gate` gets the finished sender, since gate and sender need each other."""
        self.accumulator = accumulator
        self._cluster = cluster
        self._settings = settings
        self._acks = settings.acks_value
        self._delivery_timeout_s = settings.delivery_timeout_ms / 1000
        self._retry_backoff_s = settings.retry_backoff_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[int, int] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._retry_connect_at_s: dict[int, float] = {}
        self._pump_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._gate = make_gate(self)

    def wake(self) -> None:
        """Check in the next turn of the loop whether something can be sent."""
        if not self._pump_scheduled and not self._closed:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    async def drain(self) -> list[Batch]:
        """Send all buffered batches, without lingering, and wait until each has its outcome."""
        self.accumulator.close_batches()
        batches = self.accumulator.outstanding()
        self.wake()
        await self._ended(batches)
        return batches

    async def settle(self) -> None:
        """Wait for the responses to what is in flight."""
        await self._ended([batch for queue in self.accumulator.queues.values() for batch in queue.in_flight])

    async def _ended(self, batches: list[Batch]) -> None:
        left = len([batch for batch in batches if not batch.done])
        if not left:
            return
        all_ended: asyncio.Future[None] = self._loop.create_future()

        def on_ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                resolve(all_ended, None)

        for batch in batches:
            if not batch.done:
                batch.callbacks.append(on_ended)
        await all_ended

    async def close(self, error: KafkaError) -> None:
        """Stop sending; batches without an outcome fail with `error`."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for batch in self.accumulator.outstanding():
            batch.fail(error)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._pump_scheduled = False
        if self._closed:
            return
        if self._cluster.connections.refused is not None:
            self.accumulator.abandon(self._cluster.connections.refused)
            return
        now_s = self._loop.time()
        wake_at_s = self._expire(now_s)
        ready_nodes: dict[int, bool] = {}
        by_node: dict[int, list[PartitionQueue]] = {}
        leaderless: set[str] = set()
        for queue in self.accumulator.queues.values():
            ready_at_s = self.accumulator.ready_at_s(queue)
            if ready_at_s is None:
                continue
            leader = self._cluster.metadata.leader(queue.topic_partition)
            if leader < 0:
                leaderless.add(queue.topic_partition.topic)
                continue
            by_node.setdefault(leader, []).append(queue)
            if ready_at_s <= now_s:
                ready_nodes[leader] = True
            else:
                wake_at_s = min(wake_at_s, ready_at_s)
        if leaderless:
            self._cluster.refresh_soon(leaderless, self.wake)
        for node_id in ready_nodes:
            wake_at_s = min(wake_at_s, self._serve(node_id, by_node[node_id], now_s))
        self._set_timer(wake_at_s, now_s)

    def _serve(self, node_id: int, queues: list[PartitionQueue], now_s: float) -> float:
        """Send what is ready to one node; returns when to check again, if not woken before."""
        transport = self._cluster.connections.live_transport(node_id)
        if transport is None:
            return self._connect(node_id, now_s)
        while self._in_flight.get(node_id, 0) < self._settings.max_in_flight_requests_per_connection:
            if transport.is_full:
                # With acks=0 no response holds the next request back, and what is sent no longer counts as buffered.
                transport.on_drained = self.wake
                break
            batches = self._collect(queues, now_s)
            if not batches:
                break
            self._send(node_id, transport, batches)
            # A second concurrent request carries only full batches: the rest may linger.
            queues = [queue for queue in queues if self._is_ready(queue, now_s)]
        return float("inf")

    def _is_ready(self, queue: PartitionQueue, now_s: float) -> bool:
        ready_at_s = self.accumulator.ready_at_s(queue)
        return ready_at_s is not None and ready_at_s <= now_s

    def _collect(self, queues: Iterable[PartitionQueue], now_s: float) -> list[Batch]:
        identity = self._gate.identity()
        if identity is None:
            return []
        batches: list[Batch] = []
        size = 0
        for queue in queues:
            if not self._gate.may_send(queue.topic_partition):
                continue
            batch = queue.take(
                identity,
                now_s,
                compression=self._settings.compression_type,
                transactional=self._gate.transactional_id is not None,
            )
            if batch is not None:
                batches.append(batch)
                size += len(batch.encoded or b"")
                if size >= self._settings.max_request_size:
                    break
        return batches

    def _send(self, node_id: int, transport: Transport, batches: list[Batch]) -> None:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            name, partition = batch.topic_partition
            topics.setdefault(name, []).append(PartitionProduceData(partition, batch.encoded))
        request = ProduceRequest(
            transactional_id=self._gate.transactional_id,
            acks=self._acks,
            timeout_ms=int(self._cluster.request_timeout_ms),
            topic_data=[TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()],
        )
        if self._acks == 0:
            transport.send(self._gate.produce_api, request, None)
            for batch in batches:
                self.accumulator.queue(batch.topic_partition).on_written(batch, -1, -1)
            return

        def on_answer(response: ProduceResponse | None, error: KafkaError | None) -> None:
            self._in_flight[node_id] -= 1
            self._on_answer(batches, response, error)

        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        try:
            transport.send(self._gate.produce_api, request, on_answer)
        except KafkaError as error:
            on_answer(None, error)

    def _connect(self, node_id: int, now_s: float) -> float:
        retry_at_s = self._retry_connect_at_s.get(node_id, 0.0)
        if node_id in self._connecting:
            return float("inf")
        if now_s < retry_at_s:
            return retry_at_s
        self._connecting[node_id] = asyncio.ensure_future(self._connect_quietly(node_id))
        return float("inf")

    async def _connect_quietly(self, node_id: int) -> None:
        try:
            deadline = Deadline.after(self._cluster.request_timeout_ms)
            await self._cluster.connections.transport(node_id, Purpose.DATA, deadline)
        except KafkaError:
            # The node may be back at another address. Batches have their own deadline.
            self._retry_connect_at_s[node_id] = self._loop.time() + self._retry_backoff_s
            self._cluster.refresh_soon({queue.topic for queue in self.accumulator.queues}, self.wake)
        finally:
            self._connecting.pop(node_id, None)
            self.wake()

    def _expire(self, now_s: float) -> float:
        """Fail batches older than delivery.timeout.ms; returns when the next would expire."""
        timeout_s = self._delivery_timeout_s
        next_s = float("inf")
        for queue in self.accumulator.queues.values():
            for batch in queue.expire(now_s - timeout_s):
                error = self._not_delivered(batch)
                self._gate.on_failed(batch, error)
                batch.fail(error)
            oldest = queue.retries[0] if queue.retries else queue.waiting[0] if queue.waiting else None
            if oldest is not None:
                next_s = min(next_s, oldest.created_at_s + timeout_s)
        return next_s

    def _not_delivered(self, batch: Batch) -> DeliveryTimeout:
        place, count = batch.topic_partition, batch.record_count
        what = "1 record was" if count == 1 else f"{count} records were"
        leader = self._cluster.metadata.leader(place)
        cause = self._cluster.connections.obstacle(leader) or batch.last_error
        if cause is None and leader < 0:
            cause = KafkaError("no leader is known")
        text = f"{what} not delivered to {place.topic}-{place.partition}{f': {cause.message}' if cause else ''}"
        return DeliveryTimeout(text, hint="" if batch.attempt_count else _NEVER_SENT)

    def _set_timer(self, at_s: float, now_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_s != float("inf"):
            self._timer = self._loop.call_at(max(at_s, now_s + 0.0005), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()

    # --- answers ------------------------------------------------------------------------------------------------------

    def _on_answer(self, batches: list[Batch], response: ProduceResponse | None, error: KafkaError | None) -> None:
        if response is None:
            for batch in batches:
                self._on_code(batch, None, error or ConnectionLost())
            self._cluster.metadata.forget_leaders({batch.topic_partition.topic for batch in batches})
        else:
            answers = {
                (topic.name, partition.index): partition
                for topic in response.responses
                for partition in topic.partition_responses
            }
            for batch in batches:
                answer = answers.get(batch.topic_partition)
                if answer is None:
                    self._on_code(batch, None, ConnectionLost(f"no response for {batch.topic_partition}"))
                elif answer.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    queue = self.accumulator.queue(batch.topic_partition)
                    queue.on_written(batch, answer.base_offset, answer.log_append_time_ms)
                else:
                    self._on_code(batch, answer, error_for(answer.error_code, answer.error_message or ""))
        self.wake()

    def _on_code(self, batch: Batch, answer: PartitionProduceResponse | None, error: KafkaError) -> None:
        if batch.done:
            return
        queue = self.accumulator.queue(batch.topic_partition)
        again_at_s = self._loop.time() + self._retry_backoff_s
        code = answer.error_code if answer is not None else ErrorCode.NETWORK_EXCEPTION
        if code in _GAPS and queue.on_gap(batch, again_at_s):
            return
        if code == ErrorCode.INVALID_TXN_STATE:
            # From a coordinator it would be fatal; a partition reports it for a transaction that has ended.
            error = AbortableError(code=error.code)
        if code in LEADER_MOVED:
            self._cluster.metadata.forget_leaders((batch.topic_partition.topic,))
        retriable = error.retriable or (error.code is not None and error.code.retriable)
        if retriable and self._gate.may_retry():
            batch.last_error = error
            queue.on_retriable(batch, again_at_s)
            return
        queue.on_failed(batch, error)
        self._gate.on_failed(batch, error)

    # --- for tests and demonstrations ---------------------------------------------------------------------------------

    async def resend_last(self, topic_partition: TopicPartition, deadline: Deadline) -> PartitionProduceResponse:
        """Resend the newest batch of a partition byte for byte, and return the broker's response."""
        last = self.accumulator.queue(topic_partition).last_sent
        if last is None or last.encoded is None:
            raise KafkaError(f"nothing has been sent to {topic_partition} yet")
        part = PartitionProduceData(topic_partition.partition, last.encoded)
        request = ProduceRequest(
            transactional_id=self._gate.transactional_id,
            acks=-1,
            timeout_ms=int(self._cluster.request_timeout_ms),
            topic_data=[TopicProduceData(name=topic_partition.topic, partition_data=[part])],
        )
        node_id = self._cluster.metadata.leader(topic_partition)
        response = await self._cluster.call_node(node_id, self._gate.produce_api, request, deadline)
        return response.responses[0].partition_responses[0]
