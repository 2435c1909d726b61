"""The cluster as a client sees it: requests to its nodes, coordinators and leaders, and its topics.

Owns: bootstrap, who coordinates what, the retry loops of requests to any node or a coordinator, looking topics up. Does
not own: the connections (`connections`), what is known of nodes, topics and leaders (`metadata`), the requests.
Invariant: every loop ends at its deadline.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from enum import Enum

from oncelog.client.values.errors import (
    ConfigError,
    ConnectionLost,
    KafkaError,
    RequestTimedOut,
    RetriableError,
    UnknownTopic,
    error_for,
    raise_for,
)
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import METADATA, Api, RequestT, ResponseT
from oncelog.client.wire.connections import Connections, Purpose
from oncelog.client.wire.metadata import Metadata, Topic, no_partition
from oncelog.client.wire.security import PLAINTEXT, Security
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.metadata_response import MetadataResponse

COORDINATOR_MOVED = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
COORDINATOR_BUSY = frozenset((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS))
LEADER_MOVED = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
_BUSY_BACKOFF_MS = 1
_MAX_BUSY_BACKOFF_MS = 20
"""Completing a transaction takes milliseconds: a full backoff would dominate the next one."""
PROPAGATION_MS = 1_000
"""How long a new topic may be unknown to the broker that is asked."""
_CREATION_MS = 5_000
"""Apache Kafka says that a topic is unknown until it has created it, and so it does where it never will."""
_SILENCE_S = 2.0
_NOBODY_THERE = "start a broker there (oncelog serve), or correct bootstrap_servers"


class CoordinatorKind(Enum):
    GROUP = 0
    TRANSACTION = 1


class Cluster:
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str,
        request_timeout_ms: float = 30_000,
        retry_backoff_ms: float = 100,
        security: Security = PLAINTEXT,
        creates_topics: "Callable[[Cluster, Deadline], Awaitable[bool]] | None" = None,
    ) -> None:
        """With `creates_topics` the broker may create a topic that is requested by name, if it is configured to (from
        Metadata 4 on); this asks it whether it is. Producers allow that. A reader does not, unlike Java's: a mistyped
        name would stay for ever."""
        self.request_timeout_ms = request_timeout_ms
        self.retry_backoff_ms = retry_backoff_ms
        self.metadata = Metadata()
        self.connections = Connections(
            bootstrap_servers,
            self.metadata,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            security=security,
        )
        self._creates_topics = creates_topics
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._on_refreshed: dict[Callable[[], None], None] = {}
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self.connections.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def call_any(
        self,
        api: Api[RequestT, ResponseT],
        message: RequestT,
        deadline: Deadline,
        error_of: Callable[[ResponseT], int] = lambda _: 0,
    ) -> ResponseT:
        """Send to whichever node responds first; retry until the deadline on connection failures and transient
        errors."""
        while True:
            cause: KafkaError
            transport = None
            try:
                transport = await self.connections.any_transport(deadline)
                response = await transport.request(api, message, self._patience_s(deadline))
                self.connections.was_served = True
                self.connections.answered_by[api.key] = transport.address
                code = error_of(response)
                cause = error_for(code)
                if not code or not cause.retriable:
                    return response
            except (ConnectionLost, RequestTimedOut) as error:
                cause = error
                if transport is not None and isinstance(error, ConnectionLost):
                    await self.connections.check_listener(transport.address, deadline)
            await deadline.pause(self.retry_backoff_ms, api.key.name, cause)

    async def call_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        api: Api[RequestT, ResponseT],
        message: RequestT,
        deadline: Deadline,
        error_of: Callable[[ResponseT], int],
        *,
        on_lost: Callable[[], None] = lambda: None,
        patience_ms: float | None = None,
        purpose: Purpose = Purpose.COORDINATOR,
    ) -> ResponseT:
        """Send to the coordinator until it gives its own response, not "loading" or "not coordinator".

        `on_lost` is called when a request was sent and the coordinator did not respond to it: its effect is unknown.
        `patience_ms` is for requests that may outlast the request timeout: a join waits for the whole group.
        """
        busy_backoff_ms = _BUSY_BACKOFF_MS
        while True:
            backoff_ms = self.retry_backoff_ms
            try:
                node_id = await self._coordinator(kind, key, deadline)
                transport = await self.connections.transport(node_id, purpose, deadline)
            except (ConnectionLost, RequestTimedOut) as error:
                self._coordinators.pop((kind, key), None)
                await deadline.pause(backoff_ms, api.key.name, error)
                continue
            try:
                patience_s = self._patience_s(deadline) if patience_ms is None else patience_ms / 1000
                response = await transport.request(api, message, patience_s)
            except (ConnectionLost, RequestTimedOut) as error:
                on_lost()
                self._coordinators.pop((kind, key), None)
                await deadline.pause(backoff_ms, api.key.name, error)
                continue
            code = error_of(response)
            if code in COORDINATOR_MOVED:
                # Kafka also responds like this when it logged the change and could not replicate it in time.
                on_lost()
                self._coordinators.pop((kind, key), None)
            elif code in COORDINATOR_BUSY:
                backoff_ms = busy_backoff_ms
                busy_backoff_ms = min(_MAX_BUSY_BACKOFF_MS, busy_backoff_ms * 2)
            else:
                return response
            await deadline.pause(backoff_ms, api.key.name, error_for(code))

    async def ask_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        api: Api[RequestT, ResponseT],
        message: RequestT,
        deadline: Deadline,
        error_of: Callable[[ResponseT], int],
    ) -> ResponseT:
        """Send to the coordinator once, where the next attempt may have to say something else. Raises a RetriableError
        if it does not respond, or is busy or no longer the coordinator."""
        try:
            node_id = await self._coordinator(kind, key, deadline)
            transport = await self.connections.transport(node_id, Purpose.COORDINATOR, deadline)
            response = await transport.request(api, message, self._patience_s(deadline))
        except (ConnectionLost, RequestTimedOut):
            self._coordinators.pop((kind, key), None)
            raise
        code = error_of(response)
        if code in COORDINATOR_MOVED:
            self._coordinators.pop((kind, key), None)
        if code in COORDINATOR_MOVED or code in COORDINATOR_BUSY:
            raise error_for(code)
        return response

    async def call_node(
        self, node_id: int, api: Api[RequestT, ResponseT], message: RequestT, deadline: Deadline
    ) -> ResponseT:
        """Send to one node once; the caller retries, since another node may be the right one by then."""
        transport = await self.connections.transport(node_id, Purpose.DATA, deadline)
        return await transport.request(api, message, self._patience_s(deadline))

    def known_coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """Node id of the coordinator that last responded, -1 for none."""
        return self._coordinators.get((kind, key), -1)

    async def _coordinator(self, kind: CoordinatorKind, key: str, deadline: Deadline) -> int:
        if (known := self._coordinators.get((kind, key))) is not None:
            return known
        from oncelog.client.wire.coordinator_apis import FIND_COORDINATOR, FindCoordinatorRequest

        request = FindCoordinatorRequest(key=key, key_type=kind.value)
        response = await self.call_any(FIND_COORDINATOR, request, deadline, lambda each: each.error_code)
        raise_for(response.error_code, response.error_message or "")
        self.metadata.nodes[response.node_id] = (response.host, response.port)
        self._coordinators[(kind, key)] = response.node_id
        return response.node_id

    def _patience_s(self, deadline: Deadline) -> float:
        return min(self.request_timeout_ms / 1000, deadline.remaining_s)

    # --- metadata -----------------------------------------------------------------------------------------------------

    async def bootstrap(self, deadline: Deadline, patience_ms: float | None = None) -> None:
        """Find one responding broker, and the nodes through it. Where every address refuses connections it gives up
        after `patience_ms` (default: at the deadline); silence is waited for until the deadline."""
        give_up = deadline if patience_ms is None else deadline.capped(patience_ms)
        self.connections.logs_unreachable = give_up.remaining_s > _SILENCE_S
        while True:
            try:
                await self.connections.any_transport(deadline)
                break
            except ConnectionLost as error:
                if give_up.expired:
                    raise ConnectionLost(error.message, hint=_NOBODY_THERE) from None
                await deadline.pause(self.retry_backoff_ms, "bootstrap", error)
            except RequestTimedOut as error:
                if deadline.expired:
                    raise
                await deadline.pause(self.retry_backoff_ms, "bootstrap", error)
        self.connections.logs_unreachable = True
        await self.refresh((), deadline)

    async def refresh(self, topics: Iterable[str] | None, deadline: Deadline) -> MetadataResponse:
        """Request the nodes and these topics (None: all) once; unknown topics are left out of the cache."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=self._creates_topics is not None)
        response = await self.call_any(METADATA, request, deadline, lambda each: each.error_code)
        raise_for(response.error_code)
        self.metadata.on_response(response, asyncio.get_running_loop().time())
        return response

    async def topic(self, name: str, deadline: Deadline, *, exists: bool = False) -> Topic:
        """The topic, created by the broker if it may be. A partition may have no leader: one that is down must not
        stop the others. Raises UnknownTopic soon, unless it `exists` for certain, having just been created: then the
        brokers only have to learn of it, and it waits until all partitions have leaders."""
        give_up = deadline if exists else deadline.capped(PROPAGATION_MS)
        creates_topics = self._creates_topics
        while (known := self.metadata.topic(name, is_led=exists)) is None:
            response = await self.refresh((name,), deadline)
            if self.metadata.topic(name, is_led=exists) is not None:
                continue
            code = response.topics[0].error_code if response.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not give_up.allows(self.retry_backoff_ms):
                if creates_topics is None or not await creates_topics(self, deadline):
                    raise await self.unknown_topic(name, deadline)
                give_up, creates_topics = deadline.capped(_CREATION_MS), None
            cause = error_for(code or ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r}")
            if not cause.retriable or deadline.expired:
                raise cause
            await deadline.pause(self.retry_backoff_ms, f"topic {name!r}", cause)
        return known

    async def topics_of(self, names: Iterable[str], deadline: Deadline) -> list[Topic]:
        """`topic` of each, and one request for all that are not known yet."""
        wanted = tuple(dict.fromkeys(names))
        missing = [name for name in wanted if name not in self.metadata.topics]
        if len(missing) > 1:
            await self.refresh(missing, deadline)
        return [await self.topic(name, deadline) for name in wanted]

    async def partitions_of(self, places: Collection[TopicPartition], deadline: Deadline) -> None:
        """Wait until these partitions are known, some of which may be newer than what is cached."""
        while True:
            await self.topics_of((each.topic for each in places), deadline)
            stale = self.metadata.lacking(places)
            if not stale:
                return
            await self.refresh(stale, deadline)
            if self.metadata.lacking(places):
                await deadline.pause(self.retry_backoff_ms, f"partitions of {', '.join(stale)}")

    async def matching(self, pattern: str, deadline: Deadline) -> tuple[str, ...]:
        """The names of all topics that match as a whole, sorted; internal topics are left out."""
        whole = re.compile(pattern)
        topics = (await self.refresh(None, deadline)).topics
        return tuple(
            sorted(each.name for each in topics if each.name and not each.is_internal and whole.fullmatch(each.name))
        )

    async def still_unknown(self, place: TopicPartition, since: Deadline) -> ConfigError | None:
        """After a broker responded that it does not know this partition: pauses, since it may be new; the error if it
        has been unknown for longer than that explains. `since` ends PROPAGATION_MS after the first such response."""
        if not since.allows(self.retry_backoff_ms):
            return await self.unknown_topic(place.topic, Deadline.after(PROPAGATION_MS), place.partition)
        await since.pause(self.retry_backoff_ms, f"topic {place.topic!r}")
        return None

    async def unknown_topic(self, name: str, deadline: Deadline, partition: int = 0) -> ConfigError:
        """The error for it, with the names that it may have been; or for the partition, if it has fewer."""
        from oncelog.protocol.names import nearest

        names: list[str] = []
        with suppress(RetriableError):
            names = [each.name for each in (await self.refresh(None, deadline)).topics if each.name not in (None, name)]
        topic = self.metadata.topics.get(name)
        if topic is not None and partition >= topic.partition_count:
            return no_partition(topic, partition)
        similar = nearest(name, names, 3)
        hint = f"did you mean {' or '.join(map(repr, similar))}?" if similar else "create it first, or check its name"
        return UnknownTopic(f"topic {name!r} does not exist", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, hint=hint)

    def refresh_soon(self, topics: Iterable[str], done: Callable[[], None]) -> None:
        """Refresh in the background, then call `done`, whatever the outcome. One at a time: if another is under way,
        `done` is called after that, and these topics may have to be refreshed again."""
        if self._closed:
            return
        self._on_refreshed[done] = None
        if self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh_quietly(tuple(topics)))

    async def _refresh_quietly(self, topics: tuple[str, ...]) -> None:
        try:
            await asyncio.sleep(self.retry_backoff_ms / 1000)
            await self.refresh(topics, Deadline.after(self.request_timeout_ms))
        except KafkaError:
            # Callers that need the result retry, with their own deadline.
            pass
        finally:
            self._refreshing = None
            waiting, self._on_refreshed = self._on_refreshed, {}
        # Not in `finally`: a task whose loop was closed over it ends when it is collected, and could wake no task.
        if not self._closed:
            for done in waiting:
                done()
