"""The fixture waits for what a service does beside its test, for code with an event loop and without."""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from oncelog import TopicPartition
from oncelog.faults import FaultClient
from oncelog.sync import Admin, Consumer, Producer
from oncelog.testing import Broker
from oncelog.testing.asynchronous import AsyncBroker, AsyncClock, AsyncFaults
from oncelog.testing.broker import Clock
from oncelog.testing.stored import StoredRecord
from oncelog.testing.waiting import in_thread, wait_until
from tests.support.patience import PATIENCE_MS

PLACE = TopicPartition("orders", 0)


class Beside:
    """Some work that begins once the test waits: at its first look, which finds nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work)
        listing = Admin.list_topics

        def begin(admin: Admin, **options: Any) -> list[str]:
            found = listing(admin, **options)
            if self._thread.ident is None:
                self._thread.start()
            return found

        monkeypatch.setattr(Admin, "list_topics", begin)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def test_records_are_waited_for_also_in_a_topic_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:

        def write() -> None:
            with Producer(broker.bootstrap_servers) as producer:
                for number in range(3):
                    producer.send("orders", b"%d" % number)

        with Beside(monkeypatch, write):
            found = broker.wait_for_records("orders", 3)
        assert [each.value for each in found] == [b"0", b"1", b"2"]
        assert broker.wait_for_records("orders", 2, timeout_s=0) == found, "what is there already is returned"


def test_a_wait_that_fails_says_what_is_there_and_what_is_not_committed() -> None:
    with Broker() as broker:
        with pytest.raises(TimeoutError, match=r"after 0 s 0 of 1 records can be read in 'orders'$"):
            broker.wait_for_records("orders", 1, timeout_s=0)
        broker.produce("orders", b"1")
        with Producer(broker.bootstrap_servers, transactional_id="writer") as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"2")
                expected = "1 of 2 records can be read in 'orders'; 1 more are in open or aborted transactions"
                with pytest.raises(TimeoutError, match=expected):
                    broker.wait_for_records("orders", 2, timeout_s=0)
                assert len(broker.wait_for_records("orders", 2, isolation="read_uncommitted")) == 2


def test_a_commit_of_a_group_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to an offset, or past every record of a topic, whose last offset may be that of a marker."""
    with Broker() as broker:
        with Producer(broker.bootstrap_servers, transactional_id="writer") as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"1")
                transaction.send("orders", b"2")
        group: Any = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "billing"}
        with Consumer(**group) as consumer:
            consumer.assign([PLACE])
            consumer.commit_sync({PLACE: 1})
            assert broker.wait_for_committed("billing", {PLACE: 1}, timeout_s=0) == {PLACE: 1}
            with pytest.raises(TimeoutError, match="'billing' has not committed everything: orders-0 at 1 of 2"):
                broker.wait_for_committed("billing", "orders", timeout_s=0)
            with pytest.raises(TimeoutError, match=r"'others' has not committed .*: orders-0 at no offset of 2"):
                broker.wait_for_committed("others", {PLACE: 2}, timeout_s=0)
            with pytest.raises(TimeoutError, match="no record can be read in 'refunds'"):
                broker.wait_for_committed("billing", "refunds", timeout_s=0)
            with Beside(monkeypatch, lambda: consumer.commit_sync({PLACE: 2})):
                assert broker.wait_for_committed("billing", "orders") == {PLACE: 2}


def test_a_record_is_text_and_json() -> None:
    with Broker() as broker:
        broker.produce("orders", json.dumps({"id": "ü", "cents": 7}).encode(), key="schlüssel".encode())
        broker.produce("orders", None)
        broker.produce("orders", b"\xff", key=b"\xfe")
        broker.produce("orders", b"{")
        order, tombstone, binary, torn = broker.records("orders")
        assert (order.text, order.key_text) == ('{"id": "\\u00fc", "cents": 7}', "schlüssel")
        assert order.json() == {"id": "ü", "cents": 7}
        assert (tombstone.text, tombstone.key_text, tombstone.json()) == (None, None, None)
        with pytest.raises(ValueError, match=r"the value of orders-0 at offset 2 is not UTF-8 .*: b'\\xff'"):
            binary.json()
        with pytest.raises(ValueError, match=r"the key of orders-0 at offset 2 is not UTF-8"):
            binary.key_text  # noqa: B018
        with pytest.raises(ValueError, match="the value of orders-0 at offset 3 is not JSON"):
            torn.json()


@pytest.mark.parametrize(
    ("blocking", "awaited"), [(Broker, AsyncBroker), (Clock, AsyncClock), (FaultClient, AsyncFaults)]
)
def test_each_blocking_method_can_be_awaited(blocking: type, awaited: type) -> None:
    waits_for_nothing = {"client_settings", "follow"}
    names = {name for name, _ in inspect.getmembers(blocking, inspect.isfunction) if not name.startswith("_")}
    assert {
        name for name in vars(awaited) if inspect.iscoroutinefunction(vars(awaited)[name])
    } >= names - waits_for_nothing
    for name in names - waits_for_nothing:
        there, here = (inspect.signature(getattr(each, name)) for each in (blocking, awaited))
        assert [*there.parameters] == [*here.parameters], name


async def test_code_on_a_loop_continues_while_it_waits() -> None:
    from oncelog import Producer as AsyncProducer

    async with Broker().aio as broker:

        async def write() -> None:
            async with AsyncProducer(broker.bootstrap_servers) as producer:
                await producer.send("orders", b"1")

        waits = [asyncio.create_task(broker.wait_for_records("orders", 1)) for _ in range(8)]
        await write()
        (found,) = {tuple(each) for each in await asyncio.gather(*waits)}
        assert [each.text for each in found] == ["1"]
        await broker.clock.advance(60)
        assert await broker.clock.now_ms() > found[0].timestamp_ms + 59_000
        assert await broker.faults.state("billing") is None
        assert await broker.topics() == ["orders"]


async def test_a_wait_that_is_cancelled_ends_its_thread() -> None:
    looked, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait() -> None:
        def look() -> None:
            loop.call_soon_threadsafe(looked.set)

        try:
            wait_until(look, 3_600, lambda: "nothing came")
        finally:
            ended.set()

    task = asyncio.create_task(in_thread(wait))
    await looked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(ended.wait)


def test_a_record_that_is_read_back_equals_the_one_of_the_client() -> None:
    with Broker() as broker:
        broker.produce("orders", b"1", key=b"k", headers=[("h", b"v")])
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([PLACE])
            found = consumer.poll(PATIENCE_MS)
        assert broker.records("orders") == [*found]
        assert type(broker.records("orders")[0]) is StoredRecord
