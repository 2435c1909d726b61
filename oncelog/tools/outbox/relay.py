"""One life of a relay: from the position that the target knows, in transactions, until something fails.

Owns: the content and order of a Kafka transaction, when the position alone is stored. Does not own: the database
(`feed`), the limits of the cluster (`target`), the next life (`relaying`).

A Kafka transaction has whole SQL transactions: as many as are there, but no more than `_MOST_EVENTS` once one has
ended. It is committed with the place at which the last one ends, and only then is the place confirmed to the database.
Places that are passed without an event are stored from time to time, and confirmed after that, too: so the slot is
never ahead of the position, unless something else has read it.
"""

import time
from collections import deque
from dataclasses import replace
from typing import Protocol

from oncelog.client.producing.transaction import Transaction
from oncelog.client.values.errors import KafkaError
from oncelog.tools.outbox.events import Committed, Event, Item
from oncelog.tools.outbox.feed import Backlog, Feed, FeedLost, Place
from oncelog.tools.outbox.position import NOWHERE, OutboxError, Position
from oncelog.tools.outbox.refusals import Refusals
from oncelog.tools.outbox.target import Target, size_of
from oncelog.tools.transactions import commit, passes

_MOST_EVENTS = 5_000
_MOST_S = 0.02
"""How long a transaction waits for a pause in what is committed."""
_WAIT_S = 1.0
_STORE_S = 10.0
"""How often a position is stored to which no event belongs."""
_SIGN_S = 3600.0
"""How often one is stored that has not moved: a transactional id that is idle is forgotten after seven days."""
_LOOK_S = 2.0
"""How often the backlog is asked for."""


class Watcher(Protocol):
    """Notified of the relay's progress."""

    def on_start(self, position: Position) -> None:
        """Note that a life begins."""

    def on_relayed(self, event_count: int, transaction_count: int, size_bytes: int, committed_ms: int) -> None:
        """Note that a Kafka transaction is committed; `committed_ms` is when its last SQL transaction was."""

    def on_refused(self, event: Event, reason: str) -> None:
        """Note an event that is put aside."""

    def on_moved(self, position: Position, backlog: Backlog | None) -> None:
        """Note where the relay is, and the backlog, if that was asked for."""

    def on_trouble(self, problem: str) -> None:
        """Note that something is away, and is waited for."""


class RefusedLater(Exception):
    """Raised if the broker refused what seemed to be fine: the next life finds out which event it is."""


class Life:
    """`is_careful`: the broker refused something, and this life finds out which event it was; or the database failed at
    something, and this life has all before it in Kafka when it fails there again."""

    def __init__(
        self, feed: Feed, target: Target, refusals: Refusals, watcher: Watcher, *, is_careful: bool = False
    ) -> None:
        self._feed, self._target, self._refusals, self._watcher = feed, target, refusals, watcher
        self._careful_count = 2 * _MOST_EVENTS if is_careful else 0
        self._items: deque[Item] = deque()
        self._position = self._stored = NOWHERE
        """The place before which all events are in Kafka; and the newest such place that Kafka has stored."""
        self._stored_s = self._looked_s = 0.0
        self._event_count = self._size_bytes = self._transaction_count = 0
        self.has_begun = False

    @property
    def is_careful(self) -> bool:
        """Whether each event is sent alone, so that one that the broker refuses is known, and each SQL transaction is a
        transaction of its own: until twice as many are in Kafka as a transaction has."""
        return self._careful_count > 0

    async def run(self, *, goes_on: bool, passed: Place | None = None) -> None:
        """Relay until something fails: raises OutboxError, FeedLost, KafkaError, RefusedLater. `passed` is a place to
        pass by."""
        self._target.forget_topics()
        stored = await self._target.stored(is_alone=True)
        if stored is not None:
            await self._store(stored)  # which fails if another relay has taken over: then what it does is its own
        try:
            position = await self._feed.open(stored, goes_on=goes_on, counts=True)
        except OutboxError:
            if await self._target.stored(is_alone=True) == stored:
                raise
            raise FeedLost("another relay has begun meanwhile") from None
        if passed is not None and passed.resume is not None:
            await self._feed.keep_passed(passed)
            position = replace(passed.resume, origin=position.origin)
        await self._store(position)
        await self._feed.start(position)
        self.has_begun = True
        self._watcher.on_start(position)
        while True:
            await self._step()

    async def _step(self) -> None:
        if not self._items:
            self._items.extend(await self._feed.next(_WAIT_S))
        while self._items and isinstance(self._items[0], Committed):
            self._position = self._items.popleft().position  # type: ignore[union-attr]  # looked at above
        if self._items:
            await self._relay()
        elif self._is_due():
            await self._store(self._position)
            await self._feed.on_stored(self._position)
        await self._look()

    def _is_due(self) -> bool:
        waited_s = time.monotonic() - self._stored_s
        return waited_s >= (_SIGN_S if self._position == self._stored else _STORE_S)

    async def _relay(self) -> None:
        """Commit the events that are there, to the end of a SQL transaction."""
        self._event_count = self._size_bytes = self._transaction_count = 0
        self._refusals.drop()
        async with self._target.producer.transaction() as transaction:
            end = await self._fill(transaction)
            await self._target.store(transaction, end.position)
            await self._refusals.keep()
            await self._commit(transaction)
        self._on_stored(end.position)
        self._careful_count -= self._event_count
        await self._feed.on_stored(end.position)
        self._watcher.on_relayed(self._event_count, self._transaction_count, self._size_bytes, end.time_ms)

    async def _fill(self, transaction: Transaction) -> Committed:
        """Send the events that are there, and return where they end."""
        end: Committed | None = None
        began_s = time.monotonic()
        while True:
            if self._items:
                item = self._items.popleft()
                if isinstance(item, Event):
                    await self._send(transaction, item)
                    end = None
                    continue
                self._transaction_count += end is None
                end = item
                if self.is_careful or self._event_count >= _MOST_EVENTS or time.monotonic() - began_s >= _MOST_S:
                    return end
            elif end is None:
                self._items.extend(await self._feed.next(_WAIT_S))
            elif more := await self._feed.next(0.0):
                self._items.extend(more)
            else:
                return end

    async def _send(self, transaction: Transaction, event: Event) -> None:
        reason = self._refusals.known(event) or await self._target.problem_of(event)
        if reason:
            self._watcher.on_refused(event, reason)
            diverted = self._refusals.diverted(event, reason)
            if diverted is None:
                self._event_count += 1
                if self._refusals.is_full:
                    await self._refusals.keep()
                return
            if problem := await self._target.problem_of(diverted):
                raise OutboxError(_not_aside(reason, problem))
            event = diverted
        try:
            delivery = await transaction.send_soon(
                event.topic,
                event.value,
                key=event.key,
                partition=event.partition,
                headers=event.headers,
                timestamp_ms=event.timestamp_ms,
            )
            if self.is_careful:
                await self._target.producer.flush()
                await delivery
        except KafkaError as error:
            if passes(error) or not self.is_careful:
                raise
            if reason:
                raise OutboxError(_not_aside(reason, error.message)) from error
            self._refusals.diverted(event, error.message)  # which ends the relay if there is no place for it
            self._refusals.learn(event, error.message)
            raise RefusedLater(error.message) from error
        self._event_count += 1
        self._size_bytes += size_of(event)

    async def _store(self, position: Position) -> None:
        async with self._target.producer.transaction() as transaction:
            await self._target.store(transaction, position)
            await self._commit(transaction)
        self._on_stored(position)

    def _on_stored(self, position: Position) -> None:
        self._position = self._stored = position
        self._stored_s = time.monotonic()

    async def _commit(self, transaction: Transaction) -> None:
        await commit(transaction, self._watcher.on_trouble)

    async def _look(self) -> None:
        now_s = time.monotonic()
        backlog = None
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            backlog = await self._feed.backlog()
        self._watcher.on_moved(self._position, backlog)


def _not_aside(reason: str, problem: str) -> str:
    return f"an event was refused ({reason}), and cannot be put aside: {problem}"
