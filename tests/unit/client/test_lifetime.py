"""A client that was not closed says so and where it was made; one that is used elsewhere than in its loop says whose
loop it is, and what to do.
"""

import asyncio
import gc
import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, cast

import pytest

from oncelog.client import Admin, Consumer, InvalidState, Producer, ShareConsumer, ShareRecord, TransactionalSession
from oncelog.client.values.lifetime import Lifetime
from tests.daemon.test_client_deadlines import CALLS, PLACE, TOPIC, waiting
from tests.fakes.scripted_answers import OF_A_PRODUCER
from tests.fakes.virtual_loop import ScriptedBroker, VirtualLoop
from tests.unit.client.test_interrupts import OF_A_READER

HOST = "host:1"
CLIENTS: dict[str, Callable[[], Any]] = {
    "Producer": lambda: Producer(HOST),
    "Consumer": lambda: Consumer(TOPIC, bootstrap_servers=HOST),
    "ShareConsumer": lambda: ShareConsumer(TOPIC, bootstrap_servers=HOST, group_id="group"),
    "Admin": lambda: Admin(HOST),
    "TransactionalSession": lambda: TransactionalSession(TOPIC, bootstrap_servers=HOST, group_id="group"),
}


def broker() -> ScriptedBroker:
    return ScriptedBroker({**OF_A_READER, **OF_A_PRODUCER})


def new_loop() -> asyncio.AbstractEventLoop:
    return cast(asyncio.AbstractEventLoop, VirtualLoop(broker()))


def end(loop: asyncio.AbstractEventLoop) -> None:
    """End the loop as asyncio.run does."""
    loop.run_until_complete(cancel_everything())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def cancel_everything() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
def everything_before_is_collected() -> Iterator[None]:
    """A test that counts warnings gets none of another test's clients, and leaves none."""
    gc.collect()
    yield
    gc.collect()


# --- not closed -------------------------------------------------------------------------------------------------------


def said(caplog: pytest.LogCaptureFixture, caught: list[warnings.WarningMessage]) -> list[tuple[str, str]]:
    """The messages about open clients: each warning with its place, and the line of the log."""
    ours = [each for each in caught if each.category is ResourceWarning and "closed: use" in str(each.message)]
    shown = [f"{each.filename}:{each.lineno}: {each.message}" for each in ours]
    logged = [each.getMessage() for each in caplog.records if each.name == "oncelog.client"]
    return list(zip(shown, logged, strict=True))


def dropped(make: Callable[[], Any], *, closes: bool) -> None:
    loop = new_loop()
    client = make()
    loop.run_until_complete(client.__aenter__())
    if closes:
        loop.run_until_complete(client.close())
    end(loop)


@pytest.mark.usefixtures("everything_before_is_collected")
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_that_was_not_closed_says_so_in_one_line_with_where_it_was_made(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for a session too, which is made of two clients; the line is that of the program."""
    line = CLIENTS[kind].__code__.co_firstlineno
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        dropped(CLIENTS[kind], closes=False)
        gc.collect()
    ((shown, logged),) = said(caplog, caught)
    assert shown == logged
    assert shown == f"{__file__}:{line}: a {kind} was not closed: use it in a `with` block, or call close()"


@pytest.mark.usefixtures("everything_before_is_collected")
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_that_was_closed_or_never_opened_says_nothing(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """A client that could not be opened says nothing either."""
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        dropped(CLIENTS[kind], closes=True)
        CLIENTS[kind]()
        refusing = broker()
        refusing.refusing = {"host"}
        loop = cast(asyncio.AbstractEventLoop, VirtualLoop(refusing))
        with suppress(Exception):
            loop.run_until_complete(CLIENTS[kind]().__aenter__())
        end(loop)
        gc.collect()
    assert said(caplog, caught) == []


def test_where_a_client_was_made_keeps_no_frame() -> None:
    """A frame would keep everything that the program has there."""
    made = Lifetime("Producer")
    held = [each for name in Lifetime.__slots__ for each in gc.get_referents(getattr(made, name))]
    assert not [each for each in held if isinstance(each, FrameType)]
    assert made.misplaced().args[0].count(f"{__file__}:{sys._getframe().f_lineno - 3},") == 1


# --- used elsewhere ---------------------------------------------------------------------------------------------------


class Scene:
    """Open clients, in a loop that has then ended, or that other code runs. The names are those of the table of all
    calls in `test_client_deadlines`.
    """

    def __init__(self) -> None:
        self.loop = new_loop()
        self.loop.run_until_complete(self._open())

    async def _open(self) -> None:
        self.producer = await Producer(HOST, linger_ms=1e6).__aenter__()
        self.transactional = await Producer(HOST, transactional_id="id", linger_ms=1e6).__aenter__()
        self.admin = await Admin(HOST).__aenter__()
        self.consumer = await Consumer(bootstrap_servers=HOST, group_id="mine").__aenter__()
        self.consumer.assign([PLACE])
        self.member = self.consumer
        self.shared = await CLIENTS["ShareConsumer"]().__aenter__()
        self.session: Any = await CLIENTS["TransactionalSession"]().__aenter__()
        self.transaction = await self.transactional.transaction().__aenter__()
        self.delivery = await self.producer.send_soon(TOPIC, b"value", partition=0)
        self.batch = await anext(aiter(self.session))
        await self.batch.__aenter__()

    async def close(self) -> None:
        for each in (self.session, self.consumer, self.shared, self.admin):
            await each.close()
        for producer in (self.producer, self.transactional):
            await producer.close(0)


@pytest.fixture
def scene() -> Iterator[Scene]:
    found = Scene()
    yield found
    found.loop.run_until_complete(found.close())
    end(found.loop)


@pytest.fixture(scope="module")
def orphans() -> Iterator[Scene]:
    """Clients that were left open in a loop that has ended."""
    found = Scene()
    end(found.loop)
    yield found
    for each in (found.producer, found.transactional, found.admin, found.consumer, found.shared, found.session):
        each._lifetime.close()


async def called(call: Callable[[], Any]) -> Any:
    result = call()
    return await result if inspect.isawaitable(result) else result


WAITING = [name for name in CALLS if waiting(name)]
SHARED = ShareRecord(TOPIC, 0, 0, 0, None, None, (), 1)
CLIENT_OF = {"Transaction": "Producer", "Delivery": "Producer", "SessionBatch": "TransactionalSession"}
AT_ONCE: dict[str, Callable[[Scene], Any]] = {
    "Consumer.assign": lambda scene: scene.consumer.assign([PLACE]),
    "Consumer.assignment": lambda scene: scene.consumer.assignment(),
    "Consumer.seek": lambda scene: scene.consumer.seek(PLACE, 0),
    "Consumer.pause": lambda scene: scene.consumer.pause(PLACE),
    "Consumer.resume": lambda scene: scene.consumer.resume(PLACE),
    "Consumer.commit_async": lambda scene: scene.consumer.commit_async(),
    "ShareConsumer.subscribe": lambda scene: scene.shared.subscribe(TOPIC),
    "ShareConsumer.subscription": lambda scene: scene.shared.subscription(),
    "ShareConsumer.assignment": lambda scene: scene.shared.assignment(),
    "ShareConsumer.acknowledge": lambda scene: scene.shared.acknowledge(SHARED),
    "ShareConsumer.commit_async": lambda scene: scene.shared.commit_async(),
    "Delivery.add_done_callback": lambda scene: scene.delivery.add_done_callback(print),
}
ASKS_NOTHING = {"Producer.transaction", "Delivery.done", "Delivery.result", "Consumer.group_metadata"}
"""They return what is known, wherever they are called."""


def check_error(name: str, error: InvalidState) -> None:
    kind = name.partition(".")[0]
    owner = CLIENT_OF.get(kind, kind)
    line = CLIENTS[owner].__code__.co_firstlineno if owner == "TransactionalSession" else 0
    assert f"this {owner}, made at {__file__}:{line or ''}" in str(error)


def in_another_loop(name: str, scene: Scene) -> InvalidState:
    """The error of a call from another loop, in which nothing is connected."""
    entry = waiting(name)
    call: Callable[[Any], Any] = AT_ONCE[name] if entry is None else entry[0]
    other = new_loop()
    try:
        with pytest.raises(InvalidState) as caught:
            other.run_until_complete(called(lambda: call(scene)))
    finally:
        end(other)
    return caught.value


def test_every_call_is_looked_at_or_asks_nothing() -> None:
    """A new method has to be of one kind."""
    assert {*WAITING, *AT_ONCE} | ASKS_NOTHING == set(CALLS)


@pytest.mark.parametrize("name", [*WAITING, *AT_ONCE])
def test_a_call_after_its_loop_has_ended_says_whose_loop_and_what_to_do(name: str, orphans: Scene) -> None:
    """Instead of "Event loop is closed", or of waiting for ever."""
    error = in_another_loop(name, orphans)
    check_error(name, error)
    assert (
        "belongs to an event loop that has ended (open, use and close it within one asyncio.run(); oncelog.sync."
        in str(error)
    )


@pytest.mark.parametrize("name", [*WAITING, *AT_ONCE])
def test_a_call_from_another_loop_says_whose_loop_and_what_to_do(name: str, scene: Scene) -> None:
    """Its own loop still runs, in another thread say: nothing is sent from here, and the client stays usable there."""
    error = in_another_loop(name, scene)
    check_error(name, error)
    assert (
        "event loop, and this call came from another one (asyncio.run_coroutine_threadsafe() runs a call there"
        in str(error)
    )
    assert scene.loop.run_until_complete(scene.producer.partitions_for(TOPIC)) == 1


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_call_from_a_thread_without_a_loop_says_so(name: str, scene: Scene) -> None:
    """Methods that wait for nothing are no safer in another thread."""
    with pytest.raises(InvalidState, match="this call came from a thread without one") as caught:
        AT_ONCE[name](scene)
    check_error(name, caught.value)


def test_a_record_from_another_loop_that_joins_a_batch_is_noticed_when_it_is_awaited(orphans: Scene) -> None:
    """The loop is looked at once for each batch, as it costs a seventh of a record; the first record begins one."""

    async def join() -> None:
        await (await orphans.producer.send_soon(TOPIC, b"value", partition=0))

    other = new_loop()
    with pytest.raises(InvalidState, match="this Producer, made at"):
        other.run_until_complete(join())
    with pytest.raises(InvalidState, match="this Producer, made at"):
        other.run_until_complete(orphans.transaction.send_soon(TOPIC, b"value", partition=0))
    end(other)


def test_leaving_a_block_in_another_loop_says_so_and_the_transaction_stays_as_it_is(scene: Scene) -> None:
    """Nothing is committed or aborted from there."""
    other = new_loop()
    for leave in (scene.transaction.__aexit__, scene.batch.__aexit__):
        with pytest.raises(InvalidState, match="another one"):
            other.run_until_complete(leave(None, None, None))
    end(other)
    assert scene.transaction.state == "open"


@pytest.mark.usefixtures("everything_before_is_collected")
def test_an_admin_that_is_used_without_its_block_belongs_to_the_loop_of_its_first_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It connects then, and has to be closed as well."""
    loop = new_loop()
    admin = Admin(HOST)
    assert loop.run_until_complete(admin.list_topics()) == [TOPIC]
    end(loop)
    other = new_loop()
    with pytest.raises(InvalidState, match="this Admin, made at "):
        other.run_until_complete(admin.list_topics())
    end(other)
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        del admin
        gc.collect()
    assert len(said(caplog, caught)) == 1


def test_a_client_is_named_though_its_part_is_never_collected(caplog: pytest.LogCaptureFixture) -> None:
    """A loop in a thread that ends with the program, in the middle of a callback, keeps the part for ever."""
    whole, part = Lifetime("Producer"), Lifetime("part")
    part.belong_to(whole)
    for each in (whole, part):
        each.is_open = True
    with pytest.warns(ResourceWarning, match="a Producer was not closed"):
        del each, whole
    assert "a Producer was not closed" in caplog.text
    del part
    assert "part" not in caplog.text
