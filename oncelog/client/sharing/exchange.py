"""Requests to the leaders of partitions: for records, and with what is acknowledged.

Owns: when each node gets requests, one request in flight per node, sessions, retries, outcomes. Does not own:
which partitions (`membership`), what becomes of records that are here (`handing_out`), the layout of requests
(`requests`).
Invariants
- An acknowledgement goes to the node that has locked its records, and has one outcome: that of the response, or the
  error that ended the session; a transient error of its partition has it sent again, until its deadline.
- Records are asked for while the program waits for some, and no longer: locks begin when they are acquired. With a
  limit of records, one node is asked at a time.
- A partition or node with an error is asked again after the pause between attempts.

As Kafka's ShareConsumeRequestManager. Two differences: what waits for a ShareFetch that will not be sent goes by
itself, and what belongs to a partition that is not this member's any more is sent nevertheless, since its locks still
hold.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from oncelog.client.options.share_settings import ShareConsumerSettings
from oncelog.client.sharing.acknowledgements import Acknowledgements, Origin
from oncelog.client.sharing.pieces import Piece, iter_pieces
from oncelog.client.sharing.requests import acknowledge_request, fetch_request, place_of
from oncelog.client.sharing.session import FINAL_EPOCH, SESSION_ERRORS, Place, ShareSession
from oncelog.client.values.errors import (
    AcknowledgementFailed,
    ConnectionLost,
    FatalError,
    KafkaError,
    RequestTimedOut,
    error_for,
)
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline, resolve
from oncelog.client.wire.apis import Api, RequestT, ResponseT
from oncelog.client.wire.cluster import LEADER_MOVED, Cluster
from oncelog.client.wire.connections import Purpose
from oncelog.client.wire.share_apis import SHARE_ACKNOWLEDGE, SHARE_FETCH
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_acknowledge_response import ShareAcknowledgeResponse
from oncelog.protocol.generated.share_fetch_response import PartitionData, ShareFetchResponse

_LOCKS_ENDED: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)
"""Errors after which there is nothing to acknowledge, although they are transient for other requests."""
_ASKED_AGAIN: Final = LEADER_MOVED | {
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of a partition that pass, or that the next assignment removes, as in Kafka's ShareFetchCollector."""
_FIRST_WITH_LIMIT: Final = 2
"""The first version of ShareFetch with the limit of records; a node of version 1 would acquire whole batches."""
_NEVER_S: Final = float("inf")
Code = tuple[int, str | None]
"""An error code, 0 for none, and the broker's words."""


class _Node:
    """A leader of partitions, and what is to be said to it."""

    __slots__ = ("alone", "is_fetching", "muted_until_s", "session", "task", "turn", "with_fetch")

    def __init__(self) -> None:
        self.session = ShareSession()
        self.task: asyncio.Task[None] | None = None
        """The request in flight."""
        self.is_fetching = False
        self.turn = 0
        """The number of the last ShareFetch; the node with the lowest is the next one."""
        self.muted_until_s = 0.0
        self.alone: list[Acknowledgements] = []
        """Acknowledgements that are sent as soon as the node is free."""
        self.with_fetch: list[Acknowledgements] = []
        """Acknowledgements that the next ShareFetch carries."""


class Exchange:
    def __init__(
        self,
        cluster: Cluster,
        settings: ShareConsumerSettings,
        member_id: str,
        on_outcome: Callable[[Acknowledgements, KafkaError | None], None],
    ) -> None:
        self.arrived: deque[tuple[Origin, Iterator[Piece]]] = deque()
        self.lock_timeout_ms: int | None = None
        """How long the lock of a record lasts, as the last response said."""
        self._cluster = cluster
        self._settings = settings
        self._member_id = member_id
        self._has_record_limit = settings.share_acquire_mode == "record_limit"
        """Whether a node may acquire no more records than are asked for, instead of whole batches (KIP-1206)."""
        self._on_outcome = on_outcome
        self._loop = asyncio.get_running_loop()
        self._places: Mapping[TopicPartition, UUID] = {}
        self._nodes: dict[int, _Node] = {}
        self._wants_more = False
        self._turns = 0
        self._error: KafkaError | None = None
        self._pump_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closing = False

    # --- what is wanted -----------------------------------------------------------------------------------------------

    def assign(self, places: Mapping[TopicPartition, UUID]) -> None:
        """Ask for records of exactly these partitions."""
        self._places = places
        self._wake()

    def fetch(self, acknowledged: Sequence[Acknowledgements]) -> None:
        """Ask for records, and acknowledge others on the way."""
        self._wants_more = True
        for each in acknowledged:
            self._node(each).with_fetch.append(each)
        self._wake()

    def acknowledge(self, acknowledged: Sequence[Acknowledgements]) -> None:
        """Acknowledge without asking for records."""
        for each in acknowledged:
            self._node(each).alone.append(each)
        if acknowledged:
            self._wake()

    def raise_error(self) -> None:
        """Raise what a partition or node has met, once, and AuthenticationFailed if brokers do not let this client in
        any more."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self._cluster.connections.refused is not None:
            raise self._cluster.connections.refused

    def notify(self) -> None:
        """Wake the waiter in `wait`: something has changed."""
        if self._waiter is not None:
            resolve(self._waiter, None)

    async def wait(self, timeout_s: float) -> None:
        """Wait until something has changed, or for `timeout_s`."""
        self._waiter = self._loop.create_future()
        try:
            async with asyncio.timeout(timeout_s):
                await self._waiter
        except TimeoutError:
            pass
        finally:
            self._waiter = None

    # --- the end ------------------------------------------------------------------------------------------------------

    async def leave(self, acknowledged: Sequence[Acknowledgements], deadline: Deadline) -> None:
        """Acknowledge these, and end the sessions: the leaders release what is acquired and not acknowledged."""
        self._closing = True
        self._stop_timer()
        self.acknowledge(acknowledged)
        tasks = [node.task for node in self._nodes.values() if node.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=deadline.remaining_s)
        ends = [self._end_session(node_id, node, deadline) for node_id, node in self._nodes.items()]
        await asyncio.gather(*ends)

    async def _end_session(self, node_id: int, node: _Node, deadline: Deadline) -> None:
        acknowledged = [*node.with_fetch, *node.alone]
        node.with_fetch, node.alone = [], []
        if node.task is not None or node.session.is_new:
            # A node whose last request has no response ends the session when the connection ends.
            self._complete_all(acknowledged, _not_in_session() if node.session.is_new else _closed())
            return
        request = acknowledge_request(self._settings, self._member_id, FINAL_EPOCH, acknowledged)
        node.session.start_anew()
        try:
            response = await self._request(node_id, SHARE_ACKNOWLEDGE, request, deadline)
            codes = _codes_of(response)
            whole = (response.error_code, response.error_message) if response.error_code else _NO_RESPONSE
            for each in acknowledged:
                code, message = codes.get(place_of(each), whole)
                self._complete(each, error_for(code, message or "") if code else None)
        except KafkaError as error:
            self._complete_all(acknowledged, error)
        finally:
            self._complete_all(acknowledged, _closed())

    async def close(self) -> None:
        self._closing = True
        self._stop_timer()
        tasks = [node.task for node in self._nodes.values() if node.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in self._nodes.values():
            self._complete_all([*node.with_fetch, *node.alone], _closed())
            node.with_fetch, node.alone = [], []

    # --- whose turn it is ---------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._pump_scheduled and not self._closing:
            self._pump_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send one request to each node that has none in flight, and is to get one."""
        self._pump_scheduled = False
        if self._closing:
            return
        now_s = self._loop.time()
        to_fetch = self._to_fetch(now_s) if self._wants_more else {}
        for node_id in list(dict.fromkeys((*self._nodes, *to_fetch))):
            node = self._nodes.setdefault(node_id, _Node())
            if node.task is not None:
                continue
            if node_id not in to_fetch:
                node.alone += node.with_fetch
                node.with_fetch = []
            if node.muted_until_s > now_s:
                continue
            if node.alone:
                self._start(node, self._acknowledge(node_id, node))
            elif node_id in to_fetch:
                self._turns += 1
                node.turn = self._turns
                node.is_fetching = True
                self._start(node, self._fetch(node_id, node, to_fetch[node_id]))
        waiting = [each.muted_until_s for each in self._nodes.values() if each.alone or self._wants_more]
        self._set_timer(min((each for each in waiting if each > now_s), default=_NEVER_S))

    def _to_fetch(self, now_s: float) -> dict[int, dict[TopicPartition, UUID]]:
        """The partitions to ask for by leader; with a limit of records those of one leader."""
        leaders: dict[int, dict[TopicPartition, UUID]] = {}
        leaderless = set()
        for place, topic_id in self._places.items():
            node_id = self._cluster.metadata.leader(place)
            if node_id < 0:
                leaderless.add(place.topic)
            else:
                leaders.setdefault(node_id, {})[place] = topic_id
        if leaderless:
            self._cluster.refresh_soon(leaderless, self._wake)
        if not self._has_record_limit:
            return leaders
        if any(each.is_fetching for each in self._nodes.values()):
            return {}
        nodes = {each: self._nodes.setdefault(each, _Node()) for each in leaders}
        free = [each for each, node in nodes.items() if node.muted_until_s <= now_s]
        chosen = min(free, key=lambda each: nodes[each].turn, default=-1)
        return {chosen: leaders[chosen]} if free else {}

    def _start(self, node: _Node, request: Coroutine[Any, Any, None]) -> None:
        node.task = asyncio.ensure_future(request)
        node.task.add_done_callback(lambda _: self._on_end(node))

    def _on_end(self, node: _Node) -> None:
        node.task = None
        node.is_fetching = False
        self._wake()

    def _node(self, acknowledgements: Acknowledgements) -> _Node:
        return self._nodes.setdefault(acknowledgements.origin.node_id, _Node())

    def _mute(self, node: _Node) -> None:
        node.muted_until_s = self._loop.time() + self._cluster.retry_backoff_ms / 1000

    # --- records ------------------------------------------------------------------------------------------------------

    async def _fetch(self, node_id: int, node: _Node, places: Mapping[TopicPartition, UUID]) -> None:
        acknowledged, node.with_fetch = node.with_fetch, []
        if node.session.is_new:
            self._complete_all(acknowledged, _not_in_session())
            acknowledged = []
        part = node.session.next_fetch(places)
        try:
            request = fetch_request(self._settings, self._member_id, part, acknowledged)
            deadline = Deadline.after(self._cluster.request_timeout_ms)
            response = await self._request(node_id, SHARE_FETCH, request, deadline)
        except KafkaError as error:
            self._on_failure(node, {each.topic for each in places}, acknowledged, error)
            return
        except asyncio.CancelledError:
            self._complete_all(acknowledged, _closed())
            raise
        node.session.on_response(response.error_code)
        if response.error_code:
            self._complete_all(acknowledged, error_for(response.error_code, response.error_message or ""))
            self._on_response_error(node, response.error_code, response.error_message or "")
            return
        self._on_response(node_id, node, places, acknowledged, response)

    def _on_response(
        self,
        node_id: int,
        node: _Node,
        places: Mapping[TopicPartition, UUID],
        acknowledged: Sequence[Acknowledgements],
        response: ShareFetchResponse,
    ) -> None:
        self._on_lock_timeout(response.acquisition_lock_timeout_ms)
        names = {topic_id: each.topic for each, topic_id in places.items()}
        codes: dict[Place, Code] = {}
        # One partition's data must not keep that of all others in memory.
        shares = sum(bool(data.records) for topic in response.responses for data in topic.partitions) > 1
        for topic in response.responses:
            for data in topic.partitions:
                codes[(topic.topic_id, data.partition_index)] = (
                    data.acknowledge_error_code,
                    data.acknowledge_error_message,
                )
                if topic.topic_id in names:
                    place = TopicPartition(names[topic.topic_id], data.partition_index)
                    self._on_partition(node, Origin(node_id, topic.topic_id, place), data, shares)
        self._settle_all(node, acknowledged, codes)
        if self.arrived:
            self.notify()

    def _on_partition(self, node: _Node, origin: Origin, data: PartitionData, shares: bool) -> None:
        place = origin.topic_partition
        if data.error_code in _ASKED_AGAIN:
            self._cluster.metadata.forget_leaders((place.topic,))
            self._mute(node)
        elif data.error_code:
            self._fail(node, error_for(data.error_code, data.error_message or f"{place.topic}-{place.partition}"))
        if data.acquired_records:
            self._wants_more = False
            records = data.records or b""
            view = memoryview(bytes(records) if shares else records)
            pieces = iter_pieces(place, view, data.acquired_records, check_crcs=self._settings.check_crcs)
            self.arrived.append((origin, pieces))

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    async def _acknowledge(self, node_id: int, node: _Node) -> None:
        acknowledged, node.alone = node.alone, []
        if node.session.is_new:
            self._complete_all(acknowledged, _not_in_session())
            return
        try:
            request = acknowledge_request(self._settings, self._member_id, node.session.epoch, acknowledged)
            deadline = Deadline.after(self._cluster.request_timeout_ms)
            response = await self._request(node_id, SHARE_ACKNOWLEDGE, request, deadline)
        except KafkaError as error:
            self._on_failure(node, {each.origin.topic_partition.topic for each in acknowledged}, acknowledged, error)
            return
        except asyncio.CancelledError:
            self._complete_all(acknowledged, _closed())
            raise
        node.session.on_response(response.error_code)
        self._on_lock_timeout(response.acquisition_lock_timeout_ms)
        if response.error_code:
            whole = (response.error_code, response.error_message)
            self._settle_all(node, acknowledged, {place_of(each): whole for each in acknowledged})
            self._on_response_error(node, response.error_code, response.error_message or "")
        else:
            self._settle_all(node, acknowledged, _codes_of(response))

    def _settle_all(
        self,
        node: _Node,
        acknowledged: Sequence[Acknowledgements],
        codes: Mapping[Place, Code],
    ) -> None:
        """Give each its outcome, or have it sent again."""
        for each in acknowledged:
            code, message = codes.get(place_of(each), _NO_RESPONSE)
            error = error_for(code, message or "") if code else None
            is_transient = error is not None and error.retriable and code not in _LOCKS_ENDED
            if is_transient and each.deadline.allows(self._cluster.retry_backoff_ms):
                node.alone.append(each)
                self._mute(node)
            else:
                self._complete(each, _locks_ended(code) if code in _LOCKS_ENDED else error)

    def _complete(self, acknowledgements: Acknowledgements, error: KafkaError | None) -> None:
        if not acknowledgements.is_done:
            acknowledgements.complete(error)
            self._on_outcome(acknowledgements, error)
            self.notify()

    def _complete_all(self, acknowledged: Sequence[Acknowledgements], error: KafkaError) -> None:
        for each in acknowledged:
            self._complete(each, error)

    def _on_lock_timeout(self, timeout_ms: int) -> None:
        if timeout_ms > 0:
            self.lock_timeout_ms = timeout_ms

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _request(
        self, node_id: int, api: Api[RequestT, ResponseT], message: RequestT, deadline: Deadline
    ) -> ResponseT:
        transport = await self._cluster.connections.transport(node_id, Purpose.DATA, deadline)
        if self._has_record_limit and transport.connection.version_of(SHARE_FETCH) < _FIRST_WITH_LIMIT:
            text = "the broker cannot limit the records that it acquires: it is older than Apache Kafka 4.2"
            raise FatalError(text, hint="leave share_acquire_mode out", code=ErrorCode.UNSUPPORTED_VERSION)
        return await transport.request(api, message, deadline.remaining_s)

    def _on_failure(
        self, node: _Node, topics: set[str], acknowledged: Sequence[Acknowledgements], error: KafkaError
    ) -> None:
        """Take in that a request has no response: whether it had an effect is unknown."""
        node.session.start_anew()
        self._complete_all(acknowledged, error)
        if isinstance(error, ConnectionLost | RequestTimedOut):
            self._cluster.metadata.forget_leaders(topics)
            self._mute(node)
        else:
            self._fail(node, error)

    def _on_response_error(self, node: _Node, code: int, message: str) -> None:
        error = error_for(code, message)
        if code == ErrorCode.UNKNOWN_TOPIC_ID:
            self._cluster.metadata.forget_leaders({each.topic for each in self._places})
        if code == ErrorCode.SHARE_SESSION_LIMIT_REACHED or code not in SESSION_ERRORS:
            self._mute(node)
        if not error.retriable and code not in SESSION_ERRORS:
            self._fail(node, error)

    def _fail(self, node: _Node, error: KafkaError) -> None:
        """Have this error raised; what met it is asked again, and it comes again or has passed."""
        self._error = error
        self._mute(node)
        self.notify()

    def _set_timer(self, at_s: float) -> None:
        self._stop_timer()
        if at_s != _NEVER_S:
            self._timer = self._loop.call_at(at_s, self._wake)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_NO_RESPONSE: Final[Code] = (int(ErrorCode.INVALID_RECORD_STATE), "the broker's response leaves the partition out")


def _codes_of(response: ShareAcknowledgeResponse) -> dict[Place, Code]:
    """The outcome of each partition."""
    return {
        (topic.topic_id, each.partition_index): (each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }


def _not_in_session() -> AcknowledgementFailed:
    text = "the session in which these records were delivered has ended, and released them"
    return AcknowledgementFailed(text, code=ErrorCode.SHARE_SESSION_NOT_FOUND)


def _locks_ended(code: int) -> AcknowledgementFailed:
    text = "the partition has another leader or is deleted, which has ended the locks of its records"
    return AcknowledgementFailed(text, code=ErrorCode(code))


def _closed() -> RequestTimedOut:
    return RequestTimedOut("the consumer was closed before the acknowledgement got a response")
