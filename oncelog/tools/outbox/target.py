"""The Kafka cluster that a relay writes to.

Owns: the producer, the position's record, what is known of topics, and so which events can be written at all. Does not
own: what is in a transaction (`relay`). Any cluster will do: it is asked for nothing but what a client is.

What the broker would refuse is refused before it is sent, since a record that is refused later fails the transaction
with all that is in it: a topic that does not exist, a partition that it has not, a record that is too large, one
without a key where records are compacted.
"""

import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import NewTopic
from oncelog.client.consuming.consumer import Consumer
from oncelog.client.producing.producer import Producer
from oncelog.client.producing.transaction import Transaction
from oncelog.client.values.errors import ConfigError, InvalidState, RequestTimedOut, UnknownTopic
from oncelog.client.values.records import TopicPartition
from oncelog.tools.outbox.events import Event
from oncelog.tools.outbox.position import TOPIC_CONFIGS, OutboxError, Position, topic_of

if TYPE_CHECKING:
    from oncelog.client.options.option_types import SecurityOptions

_CLIENT_ID = "oncelog-outbox"
_TRANSACTION_MS = 900_000
"""The longest that brokers allow by default (transaction.max.timeout.ms): a large SQL transaction is one of Kafka's."""
_MAX_REQUEST = 32 << 20
_BUFFER = 64 << 20
_LINGER_MS = 2
_MISSING_S = 1.0
"""How long a topic that is not there is not asked for again."""
_OVERHEAD = 100
"""The most that a batch of one record has beside its key, value and headers."""
_BACK = (1_000, 100_000)
"""How many offsets from the end the position is looked for first."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The limits of a topic."""

    partition_count: int
    max_bytes: int
    is_compacted: bool


class Target:
    """A cluster; a context. Leaving it aborts what is open. It has a producer, whose transactional id is the relay's,
    from `take_over` on."""

    def __init__(self, bootstrap: str, name: str, security: "SecurityOptions", timeout_ms: float = 10_000) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self._security = security
        self._timeout_ms = timeout_ms
        self._facts: dict[str, TopicFacts] = {}
        self._missing: dict[str, tuple[float, str]] = {}
        """The topics that cannot be written to: until when that is assumed, and why."""
        self._stack = AsyncExitStack()
        self._admin: Admin | None = None
        self._producer: Producer | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._admin = await stack.enter_async_context(
                Admin(
                    self.bootstrap,
                    default_api_timeout_ms=self._timeout_ms,
                    client_id=_CLIENT_ID,
                    **self._security,
                )
            )
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    async def take_over(self) -> None:
        """Fence earlier relays of this name: open the producer."""
        self._producer = await self._stack.enter_async_context(
            Producer(
                self.bootstrap,
                transactional_id=transactional_id_of(self.name),
                transaction_timeout_ms=_TRANSACTION_MS,
                max_request_size=_MAX_REQUEST,
                buffer_memory=_BUFFER,
                linger_ms=_LINGER_MS,
                client_id=_CLIENT_ID,
                **self._security,
            )
        )

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            raise InvalidState("the context is entered first")
        return self._admin

    @property
    def producer(self) -> Producer:
        if self._producer is None:
            raise InvalidState("take_over() is called first")
        return self._producer

    # --- the position -------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Make the topic of positions. Raises OutboxError if it is not one."""
        topic = topic_of(self.name)
        await self.admin.create_topics(NewTopic(topic, 1, configs=TOPIC_CONFIGS), exist_ok=True)
        (found,) = await self.admin.describe_topics(topic)
        if found.partition_count != 1:
            raise OutboxError(f"{topic} on the target has {found.partition_count} partitions: no relay made it")

    async def stored(self, *, is_alone: bool) -> Position | None:
        """Return the committed position. `is_alone`: earlier relays are fenced, so that nothing may be open there;
        raises RequestTimedOut while something is."""
        if is_alone:
            place = TopicPartition(topic_of(self.name), 0)
            stable = await self.admin.list_offsets([place], isolation_level="read_committed")
            if stable[place].offset < (await self.admin.list_offsets([place]))[place].offset:
                raise RequestTimedOut("the last transaction of the relay is not complete yet on the target")
        return await read_position(self.admin, self.bootstrap, self.name, self._security)

    async def store(self, transaction: Transaction, position: Position) -> None:
        """Write the position with a transaction."""
        await transaction.send_soon(topic_of(self.name), position.to_json(), key=self.name.encode(), partition=0)

    # --- events -------------------------------------------------------------------------------------------------------

    async def problem_of(self, event: Event) -> str:
        """Return why the cluster would not take this event; "" if it would."""
        if event.problem:
            return event.problem
        if event.topic.startswith("__"):
            return f"{event.topic} is an internal topic"
        known = self._facts.get(event.topic)
        if known is not None and not _misfit(event, known):
            return ""
        now_s = time.monotonic()
        until_s, problem = self._missing.get(event.topic, (0.0, ""))
        if now_s < until_s:
            return problem
        found = await self._ask(event.topic)  # it may be new, or have been changed
        if isinstance(found, str):
            self._missing[event.topic] = now_s + _MISSING_S, found
            return found
        self._facts[event.topic] = found
        return _misfit(event, found)

    def forget_topics(self) -> None:
        """Ask again what topics take."""
        self._facts.clear()
        self._missing.clear()

    async def _ask(self, topic: str) -> TopicFacts | str:
        """Return what a topic takes, or why there is none."""
        try:
            (described,) = await self.admin.describe_topics(topic)
            configs = await self.admin.describe_configs(topic=topic)
        except UnknownTopic:
            return f"there is no topic {topic!r}: `oncelog topic create {topic} -b {self.bootstrap}`"
        except ConfigError as error:  # its name, or a right that is missing
            return f"topic {topic!r}: {error.message}"
        policy = configs.get("cleanup.policy") or ""
        max_bytes = int(configs.get("max.message.bytes") or _MAX_REQUEST)
        return TopicFacts(described.partition_count, max_bytes, "compact" in policy)


def _misfit(event: Event, facts: TopicFacts) -> str:
    if event.partition is not None and not 0 <= event.partition < facts.partition_count:
        return f"{event.topic} has {facts.partition_count} partitions, and no {event.partition}"
    if event.key is None and facts.is_compacted:
        return f"{event.topic} is compacted, and the event has no key"
    size = size_of(event) + _OVERHEAD
    if size > min(facts.max_bytes, _MAX_REQUEST):
        return f"the event has {size:,} bytes, and {event.topic} takes {facts.max_bytes:,} (max.message.bytes)"
    return ""


def size_of(event: Event) -> int:
    """Return the bytes of an event in a record, at most."""
    headers = sum(len(name.encode()) + len(value or b"") + 10 for name, value in event.headers)
    return len(event.key or b"") + len(event.value or b"") + headers


def transactional_id_of(name: str) -> str:
    """Return the transactional id of a relay: two of a name fence each other."""
    return f"oncelog-outbox.{name}"


async def read_position(
    admin: Admin, bootstrap: str, name: str, security: "SecurityOptions | Mapping[str, Any]"
) -> Position | None:
    """Return the position that a relay has committed; None if it has none."""
    place = TopicPartition(topic_of(name), 0)
    try:
        begin = (await admin.list_offsets([place], "earliest"))[place].offset
    except UnknownTopic:
        return None
    stable = (await admin.list_offsets([place], isolation_level="read_committed"))[place].offset
    options: Any = dict(security)
    async with Consumer(bootstrap_servers=bootstrap, client_id=_CLIENT_ID, **options) as consumer:
        consumer.assign([place])
        for start in (*(stable - back for back in _BACK), begin):
            consumer.seek(place, max(start, begin))
            found: bytes | None = None
            while await consumer.position(place) < stable:
                for record in await consumer.poll(500, 10_000):
                    if record.key == name.encode():
                        found = record.value
            if found is not None:
                return Position.of_json(found)
            if start <= begin:
                break
    return None


async def forget_position(admin: Admin, name: str) -> bool:
    """Delete a relay's position; return whether it had one."""
    try:
        await admin.delete_topics(topic_of(name))
    except UnknownTopic:
        return False
    return True
