"""The share consumer: a member of a share group, which gets records one by one and acknowledges them (KIP-932).

Owns: the public methods, what each is allowed when, deadlines. Does not own: the work, which `handing_out` does.
Invariants: nothing is accepted that was not returned; close() always returns, and releases what is not acknowledged.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Generic, Self, Unpack

from oncelog.client.options.hooks import OnShareCommit
from oncelog.client.options.option_types import ShareConsumerOptions
from oncelog.client.options.share_settings import ShareConsumerSettings
from oncelog.client.sharing.acknowledgements import TYPES
from oncelog.client.sharing.handing_out import HandingOut
from oncelog.client.values.arguments import check_milliseconds, check_topics
from oncelog.client.values.errors import ConfigError, InvalidState, KafkaError, check_options
from oncelog.client.values.lifetime import Lifetime
from oncelog.client.values.option_values import lists_options
from oncelog.client.values.records import AcknowledgeType, K, Record, ShareRecord, TopicPartition, V
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.security import security_of

_CLOSE_TIMEOUT_MS = 10_000
_PATIENCE_MS = 60_000
"""How often the iterator's read without a time limit returns empty and is called again."""


@lists_options(ShareConsumerSettings)
class ShareConsumer(Generic[K, V]):
    """A member of a share group: a queue over topics, whose members get each record once, unless they do not accept it.

        async with ShareConsumer("jobs", bootstrap_servers="host:9092", group_id="workers") as consumer:
            while True:
                for record in await consumer.poll(timeout_ms=1000):
                    ...

    Each record is this member's for the duration of its acquisition lock (the group's share.record.lock.duration.ms,
    30 s), then another member's, and its `delivery_count` says how often that was so. By default the next poll or a
    commit accepts what was returned before; with share_acknowledgement_mode="explicit" the program acknowledges each
    record before the next poll. What is not acknowledged when the consumer is closed is released: it is delivered
    again. Acknowledgements are not part of a transaction; for exactly once there is `TransactionalSession`.

    `ShareConsumerSettings` lists the options; bad ones raise ConfigError at once. Keys and values are bytes, or what
    `key_deserializer` and `value_deserializer` return. Entering the block raises ConnectionLost if nothing accepts a
    connection for `bootstrap_timeout_ms`, and RequestTimedOut if no broker responds; the first poll raises
    UnknownTopic, and FatalError if the cluster has no share groups. Every method raises InvalidState outside the block
    and the event loop that opened it. One task at a time may poll.
    """

    def __init__(self, *topics: str, **options: Unpack[ShareConsumerOptions[K, V]]) -> None:
        check_topics("ShareConsumer", topics)
        check_options("ShareConsumer", ShareConsumerSettings, options)
        settings = self._settings = ShareConsumerSettings(**options)
        self._topics = topics
        self._cluster = Cluster(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            security=security_of(settings),
        )
        self._handing_out: HandingOut[K, V] | None = None
        self._closing = False
        self._lifetime = Lifetime("ShareConsumer")

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._handing_out is not None or self._closing:
            raise InvalidState("a share consumer can be opened only once")
        self._lifetime.open()
        settings = self._settings
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.close, 0)
            deadline = Deadline.after(settings.default_api_timeout_ms)
            await self._cluster.bootstrap(deadline, settings.bootstrap_timeout_ms)
            self._handing_out = HandingOut[K, V](self._cluster, settings, self._topics)
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> None:
        """Send the acknowledgements that the program has made, release everything else, leave the group and
        disconnect, within `timeout_ms`; never raises in its own event loop. A task that is polling gets InvalidState.

        With implicit acknowledgement, commit first what was returned last."""
        if self._closing:
            return
        self._lifetime.check_loop()
        self._closing = True
        self._lifetime.close()
        handing_out = self._handing_out
        try:
            if handing_out is not None:
                await handing_out.leave(Deadline.after(timeout_ms))
        finally:
            if handing_out is not None:
                await handing_out.close()
            await self._cluster.close()

    # --- subscription -------------------------------------------------------------------------------------------------

    def subscribe(self, *topics: str) -> None:
        """Read exactly these topics from now on; without any, leave the group until the next call. What is returned
        already can still be acknowledged. Raises ConfigError for what is no name."""
        check_topics("subscribe", topics)
        self._require_open().membership.subscribe(topics)

    def subscription(self) -> list[str]:
        """Return the topics that this consumer reads, sorted."""
        return list(self._require_open().membership.topics)

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions from which this member gets records now, sorted. Other members may have them, too."""
        return sorted(self._require_open().membership.assignment)

    # --- records ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = 0) -> list[ShareRecord[K, V]]:
        """Return available records, at most `max_poll_records`; wait up to `timeout_ms` for the first.

            for record in await consumer.poll(timeout_ms=1000):
                print(record.topic, record.partition, record.offset, record.delivery_count, record.value)

        It sends the acknowledgements of the records before, without waiting for their outcome: `on_acknowledged` gets
        that. Records are in offset order per partition of one poll. Renewed records are returned again, before others.

        Raises InvalidState if a record that was returned is not acknowledged (with explicit acknowledgement), if
        another task is polling, or closes the consumer, or if there are no topics; CorruptBatch, whose records are
        rejected; DeserializationError, whose record is released, once the records before it are returned; and
        FatalError if the group rejects this member.
        """
        check_milliseconds("timeout_ms", timeout_ms)
        return await self._require_open().poll(timeout_ms)

    async def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Iterate by `async for record in consumer`, endlessly. It polls when all records of the last poll are
        returned, which accepts them with implicit acknowledgement; until then none of them is. Raises as `poll`."""
        while True:
            for record in self._ahead():
                yield record
            await self._read_ahead()

    def _ahead(self) -> Iterator[ShareRecord[K, V]]:
        """Yield the records read ahead for iterators; the blocking one calls it in its program's thread."""
        if self._closing or self._handing_out is None:
            raise self._not_open()
        return self._handing_out.iter_ahead()

    async def _read_ahead(self) -> None:
        await self._require_open().read_ahead(_PATIENCE_MS)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long the lock of a record lasts from its delivery or renewal, as a broker last said; None before the
        first records."""
        return None if self._handing_out is None else self._handing_out.exchange.lock_timeout_ms

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, record: ShareRecord[Any, Any] | Record[Any, Any], kind: AcknowledgeType = "accept") -> None:
        """Say what becomes of a record: it is done ("accept"), is delivered again ("release"), is never delivered again
        ("reject"), or is this member's for another lock duration ("renew"), with which a later poll returns it again.

            try:
                await work(record.value)
                consumer.acknowledge(record)
            except Unreachable:
                consumer.acknowledge(record, "release")

        It is sent by the next poll or commit; until then the last word counts. The `record` of a DeserializationError
        can be rejected, or accepted, instead of released. Raises InvalidState with implicit acknowledgement, and for a
        record that this consumer has not returned, or whose acknowledgement was sent."""
        if kind not in TYPES:
            raise ConfigError(f"kind={kind!r}: must be one of {', '.join(map(repr, TYPES))}")
        self._require_open().acknowledge(record, kind)

    async def commit_sync(self) -> dict[TopicPartition, KafkaError | None]:
        """Send the acknowledgements, and return the outcome for each partition: None, or the error.

            for place, error in (await consumer.commit_sync()).items():
                if error is not None:
                    print(place, error)     # they are delivered again, maybe to another member

        A partition's acknowledgements are accepted or refused together. AcknowledgementFailed means that a record's
        lock had ended, or the leader has moved. With implicit acknowledgement it accepts all records that were
        returned."""
        return await self._require_open().commit()

    def commit_async(self, callback: OnShareCommit | None = None) -> None:
        """Send the acknowledgements without waiting; `callback(outcomes)` gets what `commit_sync` returns."""
        self._require_open().commit_soon(callback)

    # ------------------------------------------------------------------------------------------------------------------

    def _require_open(self) -> HandingOut[K, V]:
        if self._handing_out is None or self._closing:
            raise self._not_open()
        self._lifetime.check_loop()
        return self._handing_out

    def _not_open(self) -> InvalidState:
        state = "closed" if self._closing else "not open"
        return InvalidState(f"the share consumer is {state}", hint="use `async with ShareConsumer(...) as consumer`")
