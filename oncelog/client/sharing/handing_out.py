"""Handing out: from what arrived to what a poll or the iterator returns, and back as acknowledgements.

Owns: the records read ahead, when the program's word is taken and sent, the errors of a poll. Does not own: requests
(`exchange`), what the program said (`in_flight`), the public methods (`consumer`). Invariants
- With implicit acknowledgement a poll or a commit accepts what was returned before, and nothing that was only read
  ahead; with explicit acknowledgement a poll is refused while a returned record is not acknowledged.
- While the lock of a record is being renewed nothing else is returned: the program is at work on it.
- An error is raised after the records before it are returned.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, cast

from oncelog.client.options.hooks import OnAcknowledged, OnShareCommit, on_acknowledged, on_share_commit
from oncelog.client.options.serializers import deserializing
from oncelog.client.options.share_settings import ShareConsumerSettings
from oncelog.client.sharing.acknowledgements import Acknowledgements, Origin
from oncelog.client.sharing.exchange import Exchange
from oncelog.client.sharing.in_flight import InFlight
from oncelog.client.sharing.membership import ShareMembership, new_member_id
from oncelog.client.values.errors import DeserializationError, InvalidState, KafkaError, RequestTimedOut
from oncelog.client.values.records import AcknowledgeType, K, Record, ShareRecord, TopicPartition, V
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster

Outcomes = dict[TopicPartition, KafkaError | None]


class HandingOut(Generic[K, V]):
    def __init__(self, cluster: Cluster, settings: ShareConsumerSettings, topics: Sequence[str]) -> None:
        member_id = new_member_id()
        self.exchange = Exchange(cluster, settings, member_id, self._on_outcome)
        self.membership = ShareMembership(cluster, settings, member_id, self.exchange.assign, self.exchange.notify)
        self.membership.subscribe(topics)
        self._is_explicit = settings.share_acknowledgement_mode == "explicit"
        self._limit = settings.max_poll_records
        self._api_timeout_ms = settings.default_api_timeout_ms
        self._hook: OnAcknowledged | None = settings.on_acknowledged
        self._deserialized: Callable[[Record], Record[K, V]] | None = deserializing(
            settings.key_deserializer, settings.value_deserializer
        )
        self._in_flight = InFlight()
        self._ahead: deque[tuple[Origin, Record, int]] = deque()
        """Records that are here and not returned, each with its delivery count."""
        self._next_error: KafkaError | None = None
        """The error that is raised when nothing is ahead any more."""
        self._commits: set[asyncio.Task[None]] = set()
        self._is_polling = False
        self._is_closing = False

    # --- records ------------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: float) -> list[ShareRecord[K, V]]:
        await self.read_ahead(timeout_ms)
        return self._take(self._limit)

    def iter_ahead(self) -> Iterator[ShareRecord[K, V]]:
        """Yield what is ahead, one after the other."""
        while record := self._take(1):
            yield record[0]

    async def read_ahead(self, timeout_ms: float) -> None:
        """Send what the program says of the records before, and return when there are others, or the time is over."""
        deadline = Deadline.after(timeout_ms)
        self._begin()
        try:
            self._check()
            self._close_books()
            acknowledged = self._in_flight.take(Deadline.after(self._api_timeout_ms))
            if self._ahead or self.exchange.arrived or self._in_flight.has_renewals:
                self.exchange.acknowledge(acknowledged)
            else:
                self.exchange.fetch(acknowledged)
            # A program that polls on and on with no timeout must not keep the loop from its work.
            await asyncio.sleep(0)
            while not self._is_ready() and not deadline.expired:
                await self.exchange.wait(deadline.remaining_s)
                self._check()
        finally:
            self._end()

    def _begin(self) -> None:
        if self._is_polling:
            raise InvalidState("another task is polling this consumer", hint="poll in one task and pass the records on")
        if not self.membership.topics:
            raise InvalidState("there is nothing to read", hint='ShareConsumer("topic"), or subscribe("topic")')
        self._is_polling = True
        self.membership.polling.begin()

    def _end(self) -> None:
        self._is_polling = False
        self.membership.polling.end()

    def _check(self) -> None:
        if self._is_closing:
            raise InvalidState("the consumer is closed")
        self.membership.follow()
        self.exchange.raise_error()

    def _close_books(self) -> None:
        """Accept the returned records; raise an error if the program has to acknowledge them itself."""
        if not self._is_explicit:
            self._in_flight.accept_all()
        elif count := self._in_flight.unacknowledged_count:
            text = f"{count} records of the last poll are not acknowledged"
            raise InvalidState(text, hint="acknowledge each, at the latest as released, before the next poll")

    def _is_ready(self) -> bool:
        """Whether there is something to return. Raises what is to be raised before anything else."""
        if self._in_flight.has_renewals:
            return self._in_flight.has_renewed
        self._fill()
        if self._ahead:
            return True
        # Gaps, and what could not be read: the program has no say about them.
        self.exchange.acknowledge(self._in_flight.take(Deadline.after(self._api_timeout_ms)))
        if self._next_error is not None:
            error, self._next_error = self._next_error, None
            raise error
        self.exchange.fetch(())
        return False

    def _fill(self) -> None:
        """Read what arrived, batch by batch, until there is enough for one poll."""
        arrived = self.exchange.arrived
        while arrived and len(self._ahead) < self._limit and self._next_error is None:
            origin, pieces = arrived[0]
            piece = next(pieces, None)
            if piece is None:
                arrived.popleft()
                continue
            self._in_flight.add_types(origin, piece.types)
            self._ahead.extend((origin, record, count) for record, count in piece.records)
            self._next_error = piece.error

    def _take(self, limit: int) -> list[ShareRecord[K, V]]:
        """Return renewed records, else those that are ahead; an error about the first one is raised."""
        if self._in_flight.has_renewals:
            return self._in_flight.take_renewed(limit)
        returned: list[ShareRecord[K, V]] = []
        while self._ahead and len(returned) < limit:
            origin, record, count = self._ahead[0]
            try:
                objects = cast("Record[K, V]", record) if self._deserialized is None else self._deserialized(record)
            except DeserializationError as error:
                if returned:
                    break
                self._ahead.popleft()
                self._in_flight.add_failed(origin, record.offset)
                error._release()
                raise
            self._ahead.popleft()
            delivered = ShareRecord(*objects, count)
            self._in_flight.add(origin, delivered)
            returned.append(delivered)
        return returned

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def acknowledge(self, record: ShareRecord[Any, Any] | Record[Any, Any], kind: AcknowledgeType) -> None:
        if not self._is_explicit:
            text = "the next poll, or a commit, accepts all records that were returned"
            raise InvalidState(text, hint='share_acknowledgement_mode="explicit"')
        self._in_flight.acknowledge(record, kind)

    async def commit(self) -> Outcomes:
        deadline = Deadline.after(self._api_timeout_ms)
        return await _outcomes(self._send(deadline), deadline)

    def commit_soon(self, callback: OnShareCommit | None) -> None:
        deadline = Deadline.after(self._api_timeout_ms)
        acknowledged = self._send(deadline)
        if callback is not None:
            task = asyncio.ensure_future(self._call_back(acknowledged, deadline, callback))
            self._commits.add(task)
            task.add_done_callback(self._commits.discard)

    def _send(self, deadline: Deadline) -> list[Acknowledgements]:
        if not self._is_explicit:
            self._in_flight.accept_all()
        acknowledged = self._in_flight.take(deadline)
        self.exchange.acknowledge(acknowledged)
        return acknowledged

    async def _call_back(
        self, acknowledged: Sequence[Acknowledgements], deadline: Deadline, callback: OnShareCommit
    ) -> None:
        on_share_commit(callback, await _outcomes(acknowledged, deadline))

    def _on_outcome(self, acknowledgements: Acknowledgements, error: KafkaError | None) -> None:
        self._in_flight.on_outcome(acknowledgements, error)
        if self._hook is not None and acknowledgements.offsets:
            on_acknowledged(self._hook, acknowledgements.origin.topic_partition, acknowledgements.offsets, error)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def leave(self, deadline: Deadline) -> None:
        """Send what the program has said, release the rest, leave the group. Each is tried until the deadline; what
        fails is not raised: the locks end by themselves, and the member's session at the coordinator."""
        self._is_closing = True
        self.exchange.notify()
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout_at(deadline.at_s):
                await self.exchange.leave(self._in_flight.take(deadline), deadline)
        with suppress(TimeoutError, KafkaError):
            async with asyncio.timeout_at(deadline.at_s):
                await self.membership.leave(deadline)

    async def close(self) -> None:
        self._is_closing = True
        self.exchange.notify()
        await self.membership.close()
        await self.exchange.close()
        await asyncio.gather(*self._commits, return_exceptions=True)


async def _outcomes(acknowledged: Sequence[Acknowledgements], deadline: Deadline) -> Outcomes:
    """Wait for each, at most until the deadline, and return them by partition: the first error, if there is one."""
    waiting = [each.outcome for each in acknowledged]
    if waiting:
        await asyncio.wait(waiting, timeout=deadline.remaining_s)
    outcomes: Outcomes = {}
    for each in acknowledged:
        error = each.outcome.result() if each.outcome.done() else RequestTimedOut("no response to an acknowledgement")
        place = each.origin.topic_partition
        outcomes[place] = outcomes.get(place) or error
    return outcomes
