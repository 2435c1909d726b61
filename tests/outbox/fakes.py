"""A database that commits what a test says, as a feed reads it, and what a relay of it notes."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from oncelog.client import Consumer, TopicPartition
from oncelog.tools.outbox.events import Committed, Event, Item
from oncelog.tools.outbox.feed import Backlog, FeedLost, Place
from oncelog.tools.outbox.position import FoundSlot, Origin, OutboxError, Position, start_at_slot
from oncelog.tools.outbox.target import Target

ORIGIN = Origin("7", "shop", 100, 1)


@dataclass
class FakeDatabase:
    """The log of SQL transactions with their events; `confirmed` is the end up to which Kafka is known to have them."""

    log: list[tuple[int, list[Event]]] = field(default_factory=list)
    confirmed: int = ORIGIN.slot
    end: int = ORIGIN.slot
    lost: int = 0
    """How many reads fail, one after the other."""
    _waiting: "list[asyncio.Future[None]]" = field(default_factory=list)
    unreadable: int | None = None
    """The end of a SQL transaction whose second event cannot be handed over."""
    kept: list[str] = field(default_factory=list)
    """The events that a feed was asked to keep, as they are passed by."""

    def commit(self, *values: str, topic: str = "events", **others: object) -> None:
        """Adds a SQL transaction with an event for each value."""
        begin, self.end = self.end, self.end + 10
        events = [
            Event(begin, number, topic, b"k", value.encode(), (), 0, 1_000_000, **others)  # type: ignore[arg-type]
            for number, value in enumerate(values)
        ]
        self.log.append((self.end, events))
        self._changed()

    def tell(self, place: int) -> None:
        """All before it is in Kafka."""
        self.confirmed = max(self.confirmed, place)
        self._changed()

    def change(self) -> "asyncio.Future[None]":
        """Completes at the next commit or confirmation from this call on: nothing that a test has looked at before
        changes in between.
        """
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(change)
        return change

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            if not change.done():
                change.set_result(None)

    def pass_by(self) -> None:
        """Something is committed that has no event."""
        self.end += 10
        self.log.append((self.end, []))
        self._changed()


class FakeFeed:
    """Hands over one item a call, so that each boundary is seen. `on_step` is awaited before everything that it
    does."""

    def __init__(self, database: FakeDatabase, on_step: Callable[[str], "asyncio.Future[None]"] | None = None) -> None:
        self._database = database
        self._on_step = on_step
        self._items: list[Item] = []
        self._read = 0
        self._is_inside = False
        """Whether the first event was handed over of a SQL transaction whose second cannot be."""
        self.target: Target | None = None
        """The target whose position must be stored before the database gets a confirmation, if a test looks."""

    async def _step(self, name: str) -> None:
        if self._on_step is not None:
            await self._on_step(name)

    async def open(self, stored: Position | None, *, goes_on: bool, counts: bool) -> Position:
        await self._step("open")
        try:
            return start_at_slot(stored, FoundSlot("slot", ORIGIN, self._database.confirmed))
        except OutboxError as error:
            if goes_on and error.resume is not None:
                return error.resume
            raise

    async def keep_passed(self, place: Place) -> None:
        self._database.kept.append(place.name)

    async def start(self, position: Position) -> None:
        await self._step("start")
        self._read = position.place
        self._last_event = position.last_event
        self._database.tell(position.place)

    async def next(self, timeout_s: float) -> Sequence[Item]:
        await self._step("next")
        if self._database.lost:
            self._database.lost -= 1
            raise FeedLost("it was restarted")
        if not self._items:
            found = next((each for each in self._database.log if each[0] > self._read), None)
            if found is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await self._database.change()
                return ()
            if found[0] == self._database.unreadable:
                end = found[0]
                place = Place(f"event 2 at {end}", "--go-on", Position(ORIGIN, end, self._last_event))
                if self._is_inside:
                    raise FeedLost("invalid memory alloc request size", place)
                self._is_inside = True
                return found[1][:1]
            self._read, events = found
            self._last_event = self._read if events else self._last_event
            self._items = [*events, Committed(Position(ORIGIN, self._read, self._last_event, 1_000_000), 1_000_000)]
        return [self._items.pop(0)]

    async def on_stored(self, position: Position) -> None:
        await self._step("on_stored")
        if self.target is not None:
            stored = await self.target.stored(is_alone=False)
            assert stored is not None and stored.place >= position.place, "the database is told before Kafka has it"
        self._database.tell(position.place)

    async def backlog(self) -> Backlog:
        return Backlog(size_bytes=self._database.end - self._read)

    async def close(self) -> None:
        pass


@dataclass
class Notes:
    """A watcher that remembers."""

    events: int = 0
    transactions: int = 0
    rounds: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def on_start(self, position: Position) -> None:
        self.starts.append(position.place)

    def on_relayed(self, event_count: int, transaction_count: int, size_bytes: int, committed_ms: int) -> None:
        self.events += event_count
        self.transactions += transaction_count
        self.rounds += 1

    def on_refused(self, event: Event, reason: str) -> None:
        self.refused.append((event.topic, reason))

    def on_moved(self, position: Position, backlog: Backlog | None) -> None:
        pass

    def on_trouble(self, problem: str) -> None:
        self.problems.append(problem)


async def committed(bootstrap: str, topic: str = "events") -> list[str]:
    """Return the values that readers of committed records see, in order."""
    place = TopicPartition(topic, 0)
    found: list[str] = []
    async with Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        while await consumer.position(place) < end:
            found += [(record.value or b"").decode() for record in await consumer.poll(100)]
    return found
