"""The relay of one database: life after life until it is stopped, or must not continue.

Owns: which failures pass by themselves, fencing, the memory of the last error. Does not own: a life (`relay`).

A database or broker that is away is waited for without an end. A failure because of the data (`feed.Place`) repeats
itself: the second time at the same place ends the relay with a message, or `--go-on` passes the place.

The producer stays the same over all lives, so that a relay that was fenced notices it instead of fencing the other in
return: a life begins with a transaction, before it takes the slot.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from oncelog.client.values.errors import KafkaError, ProducerFenced
from oncelog.tools.outbox.events import Event
from oncelog.tools.outbox.feed import Feed, FeedLost, Place
from oncelog.tools.outbox.position import OutboxError
from oncelog.tools.outbox.refusals import Refusals
from oncelog.tools.outbox.relay import Life, RefusedLater, Watcher
from oncelog.tools.outbox.target import Target
from oncelog.tools.transactions import passes, regain

_PAUSE_S = 0.5
_TAKEN_OVER = (
    "another relay of this name has taken over: one can run at a time. Give the relay of another database another "
    "--name"
)


class Relaying:
    """`make_feed` returns a new feed of the database. With `goes_on` the first start continues where it must not
    otherwise."""

    def __init__(
        self,
        make_feed: Callable[[], Feed],
        target: Target,
        refusals: Refusals,
        watcher: Watcher,
        *,
        goes_on: bool = False,
    ) -> None:
        self._make_feed = make_feed
        self._target = target
        self._refusals = refusals
        self._watcher = watcher
        self._goes_on = goes_on
        self._may_pass = goes_on
        """Whether a place may be passed at which the database fails: once."""
        self._failed: set[str] = set()
        """The places at which the database has failed for a reason that may stay. Its messages do not count: they may
        have the time, and values of the row."""

    async def run(self) -> None:
        """Relay without an end. Raises OutboxError if it must not continue, KafkaError for an error that does not pass;
        until it runs, also if the database or a broker is away."""
        async with self._target as target:
            await target.prepare()
            await self._check()
            await target.take_over()
            is_careful = False
            passed: Place | None = None
            try:
                while True:
                    feed = self._make_feed()
                    life = Life(feed, target, self._refusals, self._watcher, is_careful=is_careful)
                    is_careful, passing = False, None
                    try:
                        await life.run(goes_on=self._goes_on, passed=passed)
                    except FeedLost as error:
                        problem = f"the database: {error}"
                        if error.place is not None:
                            # With what was committed before it in Kafka, so that nothing else is passed by.
                            passing, is_careful = self._pass(str(error), error.place), True
                    except RefusedLater as error:
                        problem, is_careful = str(error), True
                    except ProducerFenced as error:
                        problem = await regain(target.producer, error, OutboxError(_TAKEN_OVER))
                    except KafkaError as error:
                        if not passes(error):
                            if life.is_careful:
                                raise
                            is_careful = True
                        problem = error.message
                    finally:
                        await feed.close()
                    if life.has_begun:
                        self._goes_on, passed = False, None  # it was meant for the beginning
                    passed = passing or passed
                    self._watcher.on_trouble(problem)
                    await asyncio.sleep(_PAUSE_S)
            finally:
                await self._refusals.close()

    def _pass(self, error: str, place: Place) -> Place | None:
        """Return the place that the next life passes by, if any. Raises OutboxError for a place that fails twice."""
        if place.name not in self._failed:
            self._failed.add(place.name)
            return None
        if not self._may_pass or place.resume is None:
            raise OutboxError(f"the database has failed twice at {place.name} ({error}): {place.way}")
        self._may_pass = False
        self._watcher.on_trouble(f"passed, since it cannot be read ({error}): {place.name}, and what was behind it")
        return place

    async def _check(self) -> None:
        """Raise the errors that prevent a start, before another relay of this name is fenced for it."""
        if self._refusals.topic is not None:
            aside = Event(0, 0, self._refusals.topic, b"", b"")
            if problem := await self._target.problem_of(aside):
                raise OutboxError(f"--refuse-to: {problem}")
        feed = self._make_feed()
        try:
            await self._refusals.prepare()
            stored = await self._target.stored(is_alone=False)
            try:
                await feed.open(stored, goes_on=self._goes_on, counts=False)
            except OutboxError:
                # Another relay that runs advances between the two looks: then only one that is alone can decide.
                if await self._target.stored(is_alone=False) == stored:
                    raise
        except FeedLost as error:
            raise OutboxError(f"the database: {error}") from error
        finally:
            with suppress(FeedLost):
                await feed.close()
