"""Prefetches the assigned partitions.

Owns: which partitions are fetched when and from which node, one Fetch in flight per node, whose turn it is to be taken
from. Does not own: the position of a partition and what is buffered of it (`partition_state`), the assignment, starting
positions, and groups (`consumer`, `groups`). Invariants: a response to a request that `seek` or a new assignment has
overtaken is dropped; what is buffered and what the requests in flight may bring stay below `queued_max_bytes`, but for
a single batch of each node that is larger than what was left.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from oncelog.client.consuming.fetch_sessions import FIRST_VERSION, SESSION_ERRORS, FetchSession, SessionPart
from oncelog.client.consuming.partition_state import Chunk, PartitionState
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import ConnectionLost, CorruptBatch, FatalError, KafkaError, error_for
from oncelog.client.values.records import Record, TopicPartition
from oncelog.client.values.waiting import Deadline, resolve
from oncelog.client.wire.cluster import LEADER_MOVED, Cluster
from oncelog.client.wire.connections import Purpose
from oncelog.client.wire.reader_apis import FETCH
from oncelog.client.wire.transport import Transport
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from oncelog.protocol.generated.fetch_response import FetchResponse, PartitionData

_SHORT_WAIT_MS = 20
_LEAST_FETCH_BYTES = 64 << 10
"""The least buffer space for a request: with less, each batch would be a request of its own."""
_log = logging.getLogger("oncelog.client")


class Fetcher:
    def __init__(self, cluster: Cluster, settings: ConsumerSettings) -> None:
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.has_moved = False
        """True if the last `take` moved a position, if only past hidden batches."""
        self._cluster = cluster
        self._settings = settings
        self._reads_committed = settings.reads_committed
        self._retry_backoff_s = settings.retry_backoff_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[int, int] = {}
        """The node ids of requests without a response, and how many bytes each may bring."""
        self._sessions: dict[int, FetchSession] = {}
        self._connecting: dict[int, asyncio.Task[None]] = {}
        self._gone: set[str] = set()
        """The topics that were reported as deleted."""
        self._pump_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def buffered_bytes(self) -> int:
        """The bytes that are fetched and not taken, as they came: compressed."""
        return sum(chunk.size_in_bytes for state in self.partitions.values() for chunk in state.chunks)

    # --- what is fetched ----------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition], *, keep: bool) -> None:
        """Fetch exactly these partitions; with `keep`, those assigned before keep their positions."""
        previous = self.partitions
        self.partitions = {
            each: previous[each] if keep and each in previous else PartitionState(each) for each in partitions
        }
        self.wake()

    def wake(self) -> None:
        if not self._pump_scheduled and not self._closed:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def notify(self) -> None:
        """Wake the waiter in `wait`: something has changed."""
        if self._waiter is not None:
            resolve(self._waiter, None)

    async def wait(self, timeout_s: float | None) -> None:
        """Wait until something arrives, or for `timeout_s`."""
        self._waiter = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._waiter
        except TimeoutError:
            pass
        finally:
            self._waiter = None

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- taking -------------------------------------------------------------------------------------------------------

    def take(self, max_records: int) -> list[Record]:
        """Take up to `max_records`, in offset order per partition; positions move past them and past hidden batches.

        Raises the error of a partition, once, after the records before it, and when its turn among the partitions
        comes, whatever the others have; and AuthenticationFailed if brokers do not let this client in any more.
        """
        self.has_moved = False
        taken: list[Record] = []
        emptied: list[TopicPartition] = []
        failed: PartitionState | None = None
        for topic_partition, state in self.partitions.items():
            if state.paused:
                continue
            if len(taken) >= max_records:
                break
            if state.chunks:
                self._take_from(state, max_records, taken)
                if state.error is None:
                    emptied.append(topic_partition)
            if state.error is not None and not state.chunks and not taken:
                failed = state
                break
        self._to_the_end(emptied)
        if emptied:
            self._ask_ahead()
        if not taken:
            self._raise_error(failed)
        return taken

    def take_chunks(self, max_bytes: int) -> list[tuple[TopicPartition, int, Chunk]]:
        """Take whole responses, undecoded, with the position before each, until they have `max_bytes`; positions move
        past them. Nothing was taken with `take` from these partitions. Raises as `take`."""
        taken: list[tuple[TopicPartition, int, Chunk]] = []
        emptied: list[TopicPartition] = []
        failed: PartitionState | None = None
        size_bytes = 0
        for topic_partition, state in self.partitions.items():
            if size_bytes >= max_bytes:
                break
            if state.chunks and state.error is None:
                emptied.append(topic_partition)
            while state.chunks and size_bytes < max_bytes:
                chunk = state.chunks.popleft()
                taken.append((topic_partition, state.position, chunk))
                state.position = chunk.next_offset
                size_bytes += chunk.size_in_bytes
            if state.error is not None and not taken:
                failed = state
                break
        self._to_the_end(emptied)
        if taken:
            self._ask_ahead()
        else:
            self._raise_error(failed)
        return taken

    def _to_the_end(self, emptied: list[TopicPartition]) -> None:
        """Move the partition to the end: the others come first next time."""
        for topic_partition in emptied:
            self.partitions[topic_partition] = self.partitions.pop(topic_partition)

    def _ask_ahead(self) -> None:
        """Some records are here, or taken. If there are more, they are asked for at once: decoding these keeps the loop
        busy, and the broker can work meanwhile. If not, in the loop's next turn: a seek or a pause until
        then still counts for the long poll that follows."""
        committed = self._reads_committed
        for state in self.partitions.values():
            end = state.last_stable_offset if committed else state.high_watermark
            if state.is_wanted and state.next_fetch_offset < end:
                self._pump()
                return
        self.wake()

    def _raise_error(self, failed: PartitionState | None) -> None:
        if failed is not None and failed.error is not None:
            error, failed.error = failed.error, None
            # Fetched again from now on: the error comes again, or has passed.
            self.wake()
            raise error
        if self._cluster.connections.refused is not None:
            raise self._cluster.connections.refused

    def _take_from(self, state: PartitionState, max_records: int, taken: list[Record]) -> None:
        before = state.position
        try:
            state.take(max_records, taken, check_crcs=self._settings.check_crcs)
        except CorruptBatch as error:
            self._fail(state, error)
        self.has_moved |= state.position != before

    # --- fetching -----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        self._pump_scheduled = False
        if self._closed:
            return
        if self._cluster.connections.refused is not None:
            self.notify()
            return
        by_node, leaderless, again_at_s = self._by_node()
        if leaderless:
            self._report_missing(leaderless)
            self._cluster.refresh_soon(leaderless, self.wake)
        self._fetch_all(by_node)
        self._set_timer(again_at_s)

    def _by_node(self) -> tuple[dict[int, list[PartitionState]], set[str], float]:
        """The partitions to read, by the node to read them from; the topics without a leader; when the next partition
        that is muted can be read."""
        now_s = self._loop.time()
        again_at_s = float("inf")
        leaderless: set[str] = set()
        by_node: dict[int, list[PartitionState]] = {}
        for topic_partition, state in self.partitions.items():
            if not state.is_wanted:
                continue
            if state.muted_until_s > now_s:
                again_at_s = min(again_at_s, state.muted_until_s)
                continue
            node_id = self._cluster.metadata.leader(topic_partition)
            if state.preferred_until_s > now_s and state.preferred_node in self._cluster.metadata.nodes:
                node_id = state.preferred_node
            if node_id < 0:
                leaderless.add(topic_partition.topic)
            else:
                by_node.setdefault(node_id, []).append(state)
        return by_node, leaderless, again_at_s

    def _fetch_all(self, by_node: dict[int, list[PartitionState]]) -> None:
        """One request to each node that has none in flight, as far as there is room for its response."""
        ready = {}
        for node_id in [each for each in by_node if each not in self._in_flight]:
            transport = self._cluster.connections.live_transport(node_id)
            if transport is None:
                self._connect(node_id)
            else:
                ready[node_id] = transport
        if not ready:
            return
        room_bytes = self._room_bytes() // len(ready)
        if room_bytes < min(_LEAST_FETCH_BYTES, self._settings.queued_max_bytes // len(ready)):
            return
        for node_id, transport in ready.items():
            states = by_node[node_id]
            most = min(self._settings.fetch_max_bytes, len(states) * self._settings.max_partition_fetch_bytes)
            self._fetch(node_id, transport, states, min(most, room_bytes))

    def _report_missing(self, leaderless: set[str]) -> None:
        """Log a missing topic once, until it is there again. It is no error: other topics are read, and it may be
        created again."""
        self._gone &= self._cluster.metadata.missing
        for topic in sorted((leaderless & self._cluster.metadata.missing) - self._gone):
            self._gone.add(topic)
            _log.warning("topic %r does not exist any more: nothing is read of it until it is created again", topic)

    def _room_bytes(self) -> int:
        """How much may be requested now. Data that is buffered for paused partitions only is dropped when its space is
        needed, and fetched again."""
        limit = self._settings.queued_max_bytes - sum(self._in_flight.values())
        buffered = self.buffered_bytes
        if limit - buffered < _LEAST_FETCH_BYTES and not any(
            state.chunks and not state.paused for state in self.partitions.values()
        ):
            for state in self.partitions.values():
                if state.chunks:
                    state.seek(state.position)
            buffered = 0
        return max(0, limit - buffered)

    def _fetch(self, node_id: int, transport: Transport, states: list[PartitionState], max_bytes: int) -> None:
        asked = {state.topic_partition: (state, state.next_fetch_offset) for state in states}
        session = self._sessions.setdefault(node_id, FetchSession())
        # A partition skipped because enough of it is buffered must not have to wait, once that is taken, for a long
        # poll to end.
        left_out = any(state.is_full and not state.paused for state in self.partitions.values())
        max_wait_ms = (
            min(_SHORT_WAIT_MS, self._settings.fetch_max_wait_ms) if left_out else self._settings.fetch_max_wait_ms
        )

        def on_answer(response: FetchResponse | None, error: KafkaError | None) -> None:
            self._in_flight.pop(node_id, None)
            if response is not None:
                self._on_response(session, asked, response)
                self._ask_ahead()
            else:
                session.start_anew()
                self._on_error((state for state, _ in asked.values()), error or ConnectionLost())
                self.wake()

        self._in_flight[node_id] = max_bytes
        try:
            if transport.connection.version_of(FETCH) < FIRST_VERSION:
                session.start_anew()
            part = session.next_request({each: offset for each, (_, offset) in asked.items()})
            transport.send(FETCH, self._request(part, asked, max_wait_ms, max_bytes), on_answer)
        except KafkaError as error:
            on_answer(None, error)

    def _request(
        self,
        part: SessionPart,
        asked: Mapping[TopicPartition, tuple[PartitionState, int]],
        max_wait_ms: int,
        max_bytes: int,
    ) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for topic, partition in part.changed:
            fetched = FetchPartition(
                partition=partition,
                fetch_offset=asked[TopicPartition(topic, partition)][1],
                partition_max_bytes=self._settings.max_partition_fetch_bytes,
            )
            topics.setdefault(topic, []).append(fetched)
        forgotten: dict[str, list[int]] = {}
        for topic, partition in part.forgotten:
            forgotten.setdefault(topic, []).append(partition)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._settings.fetch_min_bytes,
            max_bytes=max_bytes,
            isolation_level=1 if self._reads_committed else 0,
            session_id=part.session_id,
            session_epoch=part.epoch,
            rack_id=self._settings.client_rack or "",
            topics=[FetchTopic(topic=name, partitions=parts) for name, parts in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic=name, partitions=parts) for name, parts in forgotten.items()],
        )

    def _on_response(
        self,
        session: FetchSession,
        asked: dict[TopicPartition, tuple[PartitionState, int]],
        response: FetchResponse,
    ) -> None:
        session.on_response(response.session_id, response.error_code)
        if response.error_code in SESSION_ERRORS:
            # The next request, in a new session, can go at once.
            return
        if response.error_code:
            self._on_error((state for state, _ in asked.values()), error_for(response.error_code))
            return
        # One partition's data must not keep that of all others in memory.
        shares = sum(bool(data.records) for topic in response.responses for data in topic.partitions) > 1
        for topic in response.responses:
            for data in topic.partitions:
                topic_partition = TopicPartition(topic.topic, data.partition_index)
                state, offset = asked.get(topic_partition, (None, -1))
                if state is None or self.partitions.get(topic_partition) is not state:
                    continue
                if state.next_fetch_offset != offset:
                    continue
                if data.error_code:
                    self._on_partition_error(state, data.error_code)
                else:
                    records = data.records or b""
                    self._on_data(state, data, memoryview(bytes(records) if shares else records))

    def _on_data(self, state: PartitionState, data: PartitionData, records: memoryview) -> None:
        state.on_offsets(data)
        if data.preferred_read_replica >= 0:
            state.preferred_node = data.preferred_read_replica
            state.preferred_until_s = self._loop.time() + self._settings.metadata_max_age_ms / 1000
        if not records:
            return
        try:
            state.add(records, ((each.producer_id, each.first_offset) for each in data.aborted_transactions or ()))
        except CorruptBatch as error:
            self._fail(state, error)
        self.notify()

    def _on_partition_error(self, state: PartitionState, code: int) -> None:
        error = error_for(code, f"{state.topic_partition.topic}-{state.topic_partition.partition}")
        if state.preferred_until_s:
            # A follower may be behind, or have lost the partition: the leader knows.
            state.preferred_until_s = 0.0
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.chunks:
                # Buffered records come first; the next request meets the same error.
                state.muted_until_s = self._loop.time() + self._retry_backoff_s
            else:
                state.out_of_range = True
                self.notify()
        elif error.retriable or (error.code is not None and error.code.retriable and code in LEADER_MOVED):
            self._on_error((state,), error)
        else:
            self._fail(state, error)

    def _fail(self, state: PartitionState, error: KafkaError) -> None:
        state.error = error
        state.muted_until_s = self._loop.time() + self._retry_backoff_s
        self.notify()

    def _on_error(self, states: Iterable[PartitionState], error: KafkaError) -> None:
        """Retry with the current leader; a fatal error is also reported to the reader."""
        again_at_s = self._loop.time() + self._retry_backoff_s
        topics = set()
        for state in states:
            state.muted_until_s = again_at_s
            if isinstance(error, FatalError):
                self._fail(state, error)
            state.preferred_until_s = 0.0
            topics.add(state.topic_partition.topic)
        if isinstance(error, ConnectionLost) or error.code in LEADER_MOVED:
            self._cluster.metadata.forget_leaders(topics)

    def _connect(self, node_id: int) -> None:
        if node_id not in self._connecting:
            self._connecting[node_id] = asyncio.ensure_future(self._connect_quietly(node_id))

    async def _connect_quietly(self, node_id: int) -> None:
        deadline = Deadline.after(self._cluster.request_timeout_ms)
        try:
            await self._cluster.connections.transport(node_id, Purpose.DATA, deadline)
        except KafkaError:
            # It may be back at another address; poll has its own deadline.
            self._cluster.metadata.forget_leaders({each.topic for each in self.partitions})
            for state in self.partitions.values():
                if state.preferred_node == node_id:
                    state.preferred_until_s = 0.0
        finally:
            self._connecting.pop(node_id, None)
            self.wake()

    def _set_timer(self, at_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_s != float("inf"):
            self._timer = self._loop.call_at(at_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.wake()
