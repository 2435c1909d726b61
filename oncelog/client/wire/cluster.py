"""The cluster as a client sees it: connections by node, partition leaders, coordinators.

Owns: bootstrap, the metadata cache, connections, and the retry loops of requests to any node, a partition leader or a
coordinator. Does not own: the requests. Invariant: every loop ends at its deadline; a broker that disappears and
returns before that is found again, through the known nodes first and then the bootstrap addresses.

Coordinator requests have their own connections, so that a heartbeat never waits behind a long Fetch, and joins have
others again, since a join waits for the whole group.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from oncelog.client.values.errors import (
    AuthenticationFailed,
    ConfigError,
    ConnectionLost,
    InvalidState,
    KafkaError,
    RequestTimedOut,
    RetriableError,
    UnknownTopic,
    error_for,
    raise_for,
)
from oncelog.client.values.option_values import parse_addresses
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import METADATA, Api, RequestT, ResponseT
from oncelog.client.wire.security import PLAINTEXT, Security
from oncelog.client.wire.transport import Transport, connect
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
NO_LEADER = -1
"""The leader of a partition that has none, as Metadata names it."""
_BUSY_BACKOFF_MS = 1
_MAX_BUSY_BACKOFF_MS = 20
"""Completing a transaction takes milliseconds: a full backoff would dominate the next one."""
_CLOSE_TIMEOUT_S = 1.0
PROPAGATION_MS = 1_000
"""How long a new topic may be unknown to the broker that is asked."""
_CREATION_MS = 5_000
"""Apache Kafka says that a topic is unknown until it has created it, and so it does where it never will."""
_SILENCE_S = 2.0
_MAX_CONNECT_MS = 10_000
_NOBODY_THERE = "start a broker there (oncelog serve), or correct bootstrap_servers"
_log = logging.getLogger("oncelog.client")


class CoordinatorKind(Enum):
    GROUP = 0
    TRANSACTION = 1


class Purpose(Enum):
    DATA = "data"
    COORDINATOR = "coordinator"
    JOIN = "join"
    BOOTSTRAP = "bootstrap"
    """What any node can answer, while no other connection is open."""


_ANY = (-1, Purpose.BOOTSTRAP)
"""The key of a connection to whichever node lets itself be connected to."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: UUID
    leaders: tuple[int, ...]
    """Node id of each partition's leader, -1 while there is none."""
    is_internal: bool = False
    refreshed_at_s: float = 0.0

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


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
        self.client_id = client_id
        self._security = security
        self._was_served = False
        """A listener that speaks as these connections do has responded."""
        self.refused: AuthenticationFailed | None = None
        """The last authentication failure; background tasks cannot raise it."""
        self._creates_topics = creates_topics
        self.topics: dict[str, Topic] = {}
        self.missing: set[str] = set()
        """Topics that were asked for, and do not exist."""
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.features: dict[str, int] = {}
        """The finalized level of each feature, of the newest epoch that a broker has reported."""
        self._features_epoch = -1
        self.nodes: dict[int, tuple[str, int]] = {}
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._transports: dict[tuple[int, Purpose], Transport] = {}
        self._connecting: dict[tuple[int, Purpose], asyncio.Task[Transport]] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._on_refreshed: dict[Callable[[], None], None] = {}
        self._unreachable: set[tuple[str, int]] = set()
        self._failures: dict[tuple[str, int], KafkaError] = {}
        """Why the last connection to an address could not be made; the newest last."""
        self._logs_unreachable = False
        self._closed = False

    # --- connections --------------------------------------------------------------------------------------------------

    def live_transport(self, node_id: int, purpose: Purpose = Purpose.DATA) -> Transport | None:
        transport = self._transports.get((node_id, purpose))
        return transport if transport is not None and transport.is_open else None

    async def transport(self, node_id: int, purpose: Purpose, deadline: Deadline) -> Transport:
        """An open connection to that node, opened at most once for all waiters."""
        live = self.live_transport(node_id, purpose)
        if live is not None:
            return live
        if self._closed:
            raise InvalidState("the client is closed")
        key = (node_id, purpose)
        task = self._connecting.get(key)
        if task is None:
            task = asyncio.ensure_future(self._connect(key))
            self._connecting[key] = task
            task.add_done_callback(lambda done: self._on_connected(key, done))
        # Neither a timeout nor a cancelled waiter may end it for the others.
        await asyncio.wait((task,), timeout=deadline.remaining_s)
        if not task.done():
            raise RequestTimedOut(self._not_in_time(node_id))
        if task.cancelled():
            raise InvalidState("the client is closed")
        return task.result()

    def _not_in_time(self, node_id: int) -> str:
        """Why there is no connection: what the attempts before met, if this one is not over yet."""
        addresses = self._addresses() if node_id < 0 else [self.nodes[node_id]] if node_id in self.nodes else []
        met = [error.message for address, error in self._failures.items() if address in addresses]
        named = ", ".join(f"{host}:{port}" for host, port in addresses) or f"node {node_id}"
        return met[-1] if met else f"no connection to {named} in time"

    def obstacle(self, place: TopicPartition) -> KafkaError | None:
        """What keeps requests from the partition's leader, if no connection to it can be made."""
        address = self.nodes.get(self.leader(place))
        return self._failures.get(address) if address else next(reversed(self._failures.values()), None)

    def disconnect(self, purpose: Purpose | None = None) -> None:
        """Close the connections of this purpose, or all; a request that waits there fails with ConnectionLost."""
        for key in [each for each in self._transports if purpose in (each[1], None)]:
            self._transports.pop(key).close()

    def _on_silent(self, silent: Transport) -> None:
        """A host between may have forgotten all connections to that address. One that waits for nothing, and was not
        heard of since, would show it only by a timeout of its own, one connection after the other."""
        for each in self._transports.values():
            if (
                each is not silent
                and each.address == silent.address
                and each.last_sign_s <= silent.last_sign_s
                and not each.connection.pending
            ):
                each.close()

    async def any_transport(self, deadline: Deadline) -> Transport:
        """Any open connection, else to a known node, else to a bootstrap address; raises the last error if all fail."""
        for key, transport in self._transports.items():
            if transport.is_open and key != _ANY:
                return transport
        return await self.transport(*_ANY, deadline)

    async def _connect(self, key: tuple[int, Purpose]) -> Transport:
        self._transports[key] = transport = await (self._open_any() if key == _ANY else self._open_node(key[0]))
        return transport

    async def _open_any(self) -> Transport:
        last: KafkaError = ConnectionLost("no broker is known")
        for host, port in self._addresses():
            try:
                return await self._open(host, port)
            except (ConnectionLost, RequestTimedOut) as error:
                last = error
        raise last

    def _addresses(self) -> list[tuple[str, int]]:
        return list(dict.fromkeys((*self.nodes.values(), *self._bootstrap)))

    async def _open_node(self, node_id: int) -> Transport:
        address = self.nodes.get(node_id)
        if address is None:
            text = "the partition has no leader" if node_id < 0 else f"node {node_id} is not in the metadata"
            raise ConnectionLost(text)
        return await self._open(*address)

    async def _open(self, host: str, port: int) -> Transport:
        # One dead address among several must not take the whole time.
        deadline = Deadline.after(min(_MAX_CONNECT_MS, self.request_timeout_ms))
        try:
            transport = await connect(
                host,
                port,
                client_id=self.client_id,
                request_timeout_ms=self.request_timeout_ms,
                security=self._security,
                deadline=deadline,
                on_silent=self._on_silent,
            )
        except (ConnectionLost, RequestTimedOut) as error:
            self._on_unreachable((host, port), error)
            if isinstance(error, ConnectionLost):
                await self._check_listener(f"{host}:{port}", deadline)
            raise
        except AuthenticationFailed as error:
            self.refused = error
            raise
        self._failures.pop((host, port), None)
        if (host, port) in self._unreachable:
            self._unreachable.remove((host, port))
            _log.warning("connected to %s:%s again", host, port)
        connection = transport.connection
        if connection.features_epoch > self._features_epoch:
            self._features_epoch, self.features = connection.features_epoch, connection.finalized_features
        return transport

    async def _check_listener(self, address: str, deadline: Deadline) -> None:
        """A connection failed: raises ConfigError if that is because the listener speaks otherwise than this client."""
        if not self._was_served:
            from oncelog.client.wire.listeners import check_listener

            await check_listener(address, self._security, deadline)

    def _on_unreachable(self, address: tuple[str, int], error: KafkaError) -> None:
        self._failures.pop(address, None)
        self._failures[address] = error
        # Logged once, until it is reached again; where opening gives up soon, the exception says it instead.
        if self._logs_unreachable and not self._closed and address not in self._unreachable:
            self._unreachable.add(address)
            _log.warning("%s; trying again", error)

    def _on_connected(self, key: tuple[int, Purpose], task: asyncio.Task[Transport]) -> None:
        del self._connecting[key]
        if not task.cancelled():
            # Waiters have seen the error; without one, nothing else would retrieve it.
            task.exception()

    async def close(self) -> None:
        self._closed = True
        tasks: list[asyncio.Task[Transport] | asyncio.Task[None]] = list(self._connecting.values())
        if self._refreshing is not None:
            tasks.append(self._refreshing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        transports = list(self._transports.values())
        for transport in transports:
            transport.close()
        await asyncio.gather(*(transport.wait_closed(_CLOSE_TIMEOUT_S) for transport in transports))

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
                transport = await self.any_transport(deadline)
                response = await transport.request(api, message, self._patience_s(deadline))
                self._was_served = True
                code = error_of(response)
                cause = error_for(code)
                if not code or not cause.retriable:
                    return response
            except (ConnectionLost, RequestTimedOut) as error:
                cause = error
                if transport is not None and isinstance(error, ConnectionLost):
                    await self._check_listener(transport.address, deadline)
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
                transport = await self.transport(node_id, purpose, deadline)
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
            transport = await self.transport(node_id, Purpose.COORDINATOR, deadline)
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
        transport = await self.transport(node_id, Purpose.DATA, deadline)
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
        self.nodes[response.node_id] = (response.host, response.port)
        self._coordinators[(kind, key)] = response.node_id
        return response.node_id

    def _patience_s(self, deadline: Deadline) -> float:
        return min(self.request_timeout_ms / 1000, deadline.remaining_s)

    # --- metadata -----------------------------------------------------------------------------------------------------

    async def bootstrap(self, deadline: Deadline, patience_ms: float | None = None) -> None:
        """Find one responding broker, and the nodes through it. Where nothing accepts a connection it gives up after
        `patience_ms` (default: at the deadline), and where what accepts it says nothing, after `_MAX_CONNECT_MS`."""
        give_up = deadline if patience_ms is None else deadline.capped(patience_ms)
        give_up_silence = deadline.capped(_MAX_CONNECT_MS)
        self._logs_unreachable = give_up.remaining_s > _SILENCE_S
        while True:
            try:
                await self.any_transport(deadline)
                break
            except ConnectionLost as error:
                if give_up.expired:
                    raise ConnectionLost(error.message, hint=_NOBODY_THERE) from None
                await deadline.pause(self.retry_backoff_ms, "bootstrap", error)
            except RequestTimedOut:
                if give_up_silence.expired:
                    raise
        self._logs_unreachable = True
        await self.refresh((), deadline)

    async def refresh(self, topics: Iterable[str] | None, deadline: Deadline) -> MetadataResponse:
        """Request the nodes and these topics (None: all) once; unknown topics are left out of the cache."""
        names = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=names, allow_auto_topic_creation=self._creates_topics is not None)
        response = await self.call_any(METADATA, request, deadline, lambda each: each.error_code)
        raise_for(response.error_code)
        self.nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        now_s = asyncio.get_running_loop().time()
        for topic in response.topics:
            is_missing = topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            (self.missing.add if is_missing else self.missing.discard)(topic.name or "")
            if topic.error_code or topic.name is None or not topic.partitions:
                self.topics.pop(topic.name or "", None)
                continue
            leaders = [-1] * len(topic.partitions)
            for partition in topic.partitions:
                if partition.partition_index < len(leaders):
                    leaders[partition.partition_index] = partition.leader_id
            self.topics[topic.name] = Topic(topic.name, topic.topic_id, tuple(leaders), topic.is_internal, now_s)
        return response

    async def topic(self, name: str, deadline: Deadline, *, exists: bool = False) -> Topic:
        """The topic, created by the broker if it may be. A partition may have no leader: one that is down must not
        stop the others. Raises UnknownTopic soon, unless it `exists` for certain, having just been created: then the
        brokers only have to learn of it, and it waits until all partitions have leaders."""
        give_up = deadline if exists else deadline.capped(PROPAGATION_MS)
        creates_topics = self._creates_topics
        while (known := self._known(name, is_led=exists)) is None:
            response = await self.refresh((name,), deadline)
            if self._known(name, is_led=exists) is not None:
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
        missing = [name for name in wanted if name not in self.topics]
        if len(missing) > 1:
            await self.refresh(missing, deadline)
        return [await self.topic(name, deadline) for name in wanted]

    async def partitions_of(self, places: Collection[TopicPartition], deadline: Deadline) -> None:
        """Until these partitions are known, some of which may be newer than what is cached."""
        while True:
            await self.topics_of((each.topic for each in places), deadline)
            stale = self._lacking(places)
            if not stale:
                return
            await self.refresh(stale, deadline)
            if self._lacking(places):
                await deadline.pause(self.retry_backoff_ms, f"partitions of {', '.join(stale)}")

    def _lacking(self, places: Collection[TopicPartition]) -> list[str]:
        """The topics that are not known to have all these partitions."""
        known = self.topics
        return sorted({name for name, number in places if name not in known or number >= known[name].partition_count})

    def _known(self, name: str, *, is_led: bool) -> Topic | None:
        """The topic; with `is_led` only if all its partitions have leaders."""
        known = self.topics.get(name)
        return known if known is not None and not (is_led and min(known.leaders) < 0) else None

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
        topic = self.topics.get(name)
        if topic is not None and partition >= topic.partition_count:
            return _no_partition(topic, partition)
        similar = nearest(name, names, 3)
        hint = f"did you mean {' or '.join(map(repr, similar))}?" if similar else "create it first, or check its name"
        return UnknownTopic(f"topic {name!r} does not exist", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, hint=hint)

    def refreshed_at_s(self, name: str) -> float:
        """When the topic was last found, on the loop's clock; before any time if it is not known."""
        known = self.topics.get(name)
        return float("-inf") if known is None else known.refreshed_at_s

    def leader(self, topic_partition: TopicPartition) -> int:
        """Node id of the leader, -1 while unknown."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None or topic_partition.partition >= len(topic.leaders):
            return -1
        return topic.leaders[topic_partition.partition]

    def forget_leaders(self, topics: Iterable[str]) -> None:
        """The leaders moved or cannot be reached: refresh before the next use."""
        for name in topics:
            self.topics.pop(name, None)

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


def leader_of(cluster: Cluster, place: TopicPartition) -> int:
    """Node id of the leader. Raises ConfigError for a partition that its topic, which is known, does not have."""
    topic = cluster.topics[place.topic]
    if not 0 <= place.partition < topic.partition_count:
        raise _no_partition(topic, place.partition)
    return topic.leaders[place.partition]


def _no_partition(topic: Topic, partition: int) -> ConfigError:
    text = f"topic {topic.name!r} has no partition {partition}: the last is {topic.partition_count - 1}"
    return ConfigError(text, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
