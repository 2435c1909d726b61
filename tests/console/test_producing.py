"""What the console writes: records as they were typed, transactions that a person ends, and who may."""

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from html import unescape
from typing import Any

import httpx
import pytest

from oncelog.console import forms, writing
from oncelog.console.reading import Reader
from oncelog.console.security import no_writing_of
from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.testing import Broker
from tests.support.console.consoles import OURS, console, text_of
from tests.support.patience import GIVES_UP_MS, PATIENCE_MS


def patient(broker: Broker, **rights: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    """A console that waits for a busy broker."""
    return console(Reader(broker.bootstrap_servers, PATIENCE_MS), **rights)


async def settled(client: httpx.AsyncClient, path: str) -> str:
    """The page, once there is a response to everything that was asked."""
    while "no response yet" in (page := (await client.get(path)).text) or "not acknowledged" in text_of(page):
        pass
    return page


async def post(client: httpx.AsyncClient, fields: Mapping[str, str]) -> httpx.Response:
    return await client.post("/produce", data={"kind": "text", **fields}, headers=OURS)


async def produced(client: httpx.AsyncClient, **fields: str) -> str:
    """The page that comes after a record that was written."""
    done = await post(client, fields)
    assert done.status_code == 303, text_of(done.text)
    return await settled(client, done.headers["location"])


async def pressed(client: httpx.AsyncClient, page: str, how: str, *, waits: bool = True) -> str:
    """The page after the button of the newest transaction that can be ended so."""
    action = re.search(rf'action="(/end\?[^"]*how={how}[^"]*)"', page)
    assert action is not None, text_of(page)
    done = await client.post(unescape(action[1]), headers=OURS)
    assert done.status_code == 303, text_of(done.text)
    address = done.headers["location"]
    return await settled(client, address) if waits else (await client.get(address)).text


async def test_a_record_is_written_as_it_was_typed() -> None:
    """Text, JSON and null, with lines as they were typed, a key, headers and a partition; and the page leads to it."""
    with Broker(config={"num.partitions": 3}) as broker:
        async with patient(broker) as client:
            said = await produced(
                client, topic="orders", key="17", value="two\r\nlines", partition="2", headers="a: 1\r\nb:\r\na: x:y"
            )
            await produced(client, topic="orders", kind="json", value='{"cents": 12.50}', partition="2")
            await produced(client, topic="orders", kind="null", key="17", partition="2")
        assert [(each.key, each.value, list(each.headers)) for each in broker.records("orders")] == [
            (b"17", b"two\nlines", [("a", b"1"), ("b", b""), ("a", b"x:y")]),
            (None, b'{"cents": 12.50}', []),
            (b"17", None, []),
        ]
    assert "Written: orders -2 offset 0" in text_of(said)
    assert "/messages?topic=orders&amp;partition=2&amp;from=0" in said


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": "json", "value": '{"a": }'}, "the value is not JSON: Expecting value in line 1, column 7"),
        ({"kind": "null"}, "the value is null, and has a text"),
        ({"kind": "avro"}, "is none of text, json, null"),
        ({"headers": "no colon"}, "'no colon' is no header"),
        ({"partition": "x"}, "is not a number"),
        ({"partition": "7"}, "partition"),
        ({"topic": " "}, "the topic is empty"),
        ({"transaction": "new", "timeout": "60000"}, "needs a transactional id"),
        ({"transaction": "9"}, "this console has no transaction 9"),
    ],
)
async def test_what_cannot_be_written_is_said_and_what_was_typed_is_kept(fields: dict[str, str], why: str) -> None:
    """Nothing is written, and the form keeps its values."""
    with Broker() as broker:
        broker.create_topic("orders")
        async with patient(broker) as client:
            said = await post(client, {"topic": "orders", "value": "<typed>\nin lines", "key": "k", **fields})
        assert said.status_code in (400, 404) and why in text_of(said.text)
        assert "<textarea" in said.text and fields.get("value", "<typed>\nin lines") in unescape(said.text)
        assert 'name="key" value="k"' in said.text
        assert broker.records("orders") == []


async def test_a_transaction_waits_for_the_button_that_ends_it() -> None:
    """Left open it holds readers up; committed, its records are read; aborted, they never are."""
    with Broker() as broker:
        async with patient(broker) as client:
            page = await produced(client, topic="orders", value="first", transaction="new", id="till", timeout="60000")
            assert 'value="1" selected' in page, "the next record is offered to go into the same transaction"
            await produced(client, topic="orders", value="second", transaction="1")
            assert [(each.transactional_id, each.state) for each in broker.transactions()] == [("till", "Ongoing")]
            assert broker.records("orders") == []
            page = await pressed(client, page, "commit")
            assert "1 till committed" in text_of(page) and "/end?" not in page
            assert [each.value for each in broker.records("orders")] == [b"first", b"second"]
            page = await produced(client, topic="orders", value="third", transaction="new", id="till", timeout="60000")
            page = await pressed(client, page, "abort")
            assert "2 till aborted" in text_of(page)
            assert len(broker.records("orders")) == 2
            assert {*re.findall(r'<th class="number">([^<]+)</th>', page)} <= {*re.findall(r"<dt>([^<]+)</dt>", page)}


async def test_the_same_id_again_is_a_new_instance_that_fences_the_one_before() -> None:
    """The first one is a zombie then: its commit is rejected, and its records are never read."""
    with Broker() as broker:
        async with patient(broker) as client:
            of_till = {"topic": "orders", "transaction": "new", "id": "till", "timeout": "60000"}
            first = await produced(client, value="of the zombie", **of_till)
            await produced(client, value="of the new instance", **of_till)
            page = await pressed(client, first, "commit")
            assert "1 till fenced" in text_of(page), text_of(page)
            await pressed(client, page, "commit")
        assert [each.value for each in broker.records("orders")] == [b"of the new instance"]


async def test_a_commit_that_the_broker_holds_keeps_no_page_waiting() -> None:
    """The page says that there is no response yet, and what became of it once there is one."""
    with Broker() as broker:
        async with patient(broker) as client:
            page = await produced(client, topic="orders", value="held", transaction="new", id="till", timeout="60000")
            held = broker.faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN)))
            page = await pressed(client, page, "commit", waits=False)
            assert "commit asked, no response yet" in text_of(page) and "/end?" not in page
            broker.faults.remove(held)
            assert "1 till committed" in text_of(await settled(client, "/produce"))


async def test_an_id_whose_last_transaction_waits_for_its_markers_begins_no_other_yet() -> None:
    """The coordinator gives no epoch until then; the page says so, and does not call the cluster silent."""
    with Broker() as broker:
        async with patient(broker) as client:
            new = {"topic": "orders", "value": "x", "transaction": "new", "id": "till", "timeout": "60000"}
            page = await produced(client, **new)
            held = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, times=None))
            await pressed(client, page, "commit")
            async with console(Reader(broker.bootstrap_servers, GIVES_UP_MS)) as another:
                refused = await post(another, new)
            broker.faults.remove(held)
    assert refused.status_code == 400 and "may wait for its markers" in text_of(refused.text)


async def test_what_is_open_when_the_console_ends_is_aborted() -> None:
    """No transaction is left that only its timeout ends."""
    with Broker() as broker:
        async with patient(broker) as client:
            await produced(client, topic="orders", value="x", transaction="new", id="till", timeout="60000")
        assert [each.state for each in broker.transactions()] in (["CompleteAbort"], ["Empty"])


async def test_a_console_has_so_many_transactions_open_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has connections of its own; one that has ended makes room."""
    monkeypatch.setattr(writing, "MOST_TRANSACTIONS", 1)
    with Broker() as broker:
        async with patient(broker) as client:
            new = {"topic": "orders", "value": "x", "transaction": "new", "timeout": "60000"}
            page = await produced(client, id="a", **new)
            refused = await post(client, {"id": "b", **new})
            assert refused.status_code == 400 and "1 transactions open: end one first" in text_of(refused.text)
            await pressed(client, page, "commit")
            await produced(client, id="b", **new)


# --- who may ----------------------------------------------------------------------------------------------------------


async def test_a_console_that_may_not_write_says_why_and_shows_no_form() -> None:
    """Read-only, or reached by others: each has its own sentence, on the page and in the answer to a form."""
    with Broker() as broker:
        for read_only, no_writing, why in (
            (True, "", "--read-only"),
            (False, "no --allow-produce", "no --allow-produce"),
        ):
            async with patient(broker, read_only=read_only, no_writing=no_writing) as client:
                page = (await client.get("/produce")).text
                refused = [await post(client, {"topic": "orders"}), await client.post("/end?number=1", headers=OURS)]
            assert why in text_of(page) and "<form" not in page
            assert [(each.status_code, why in each.text) for each in refused] == [(403, True)] * 2


@pytest.mark.parametrize("headers", [{}, {"origin": "http://evil.example"}, {"origin": "null"}])
async def test_a_form_of_another_site_writes_nothing(headers: dict[str, str]) -> None:
    """A form is refused without an Origin too: that header names the site that sent it."""
    with Broker() as broker:
        broker.create_topic("orders")
        async with patient(broker) as client:
            said = await client.post("/produce", data={"topic": "orders", "value": "x"}, headers=headers)
        assert said.status_code == 403
        assert broker.records("orders") == []


@pytest.mark.parametrize(
    ("host", "allowed_hosts", "may_write"),
    [
        ("127.0.0.1", (), True),
        ("127.8.0.1", (), True),
        ("::1", (), True),
        ("0.0.0.0", (), False),
        ("::", (), False),
        ("192.168.0.7", (), False),
        ("fe80::1%eth0", (), False),
        ("127.0.0.1", ("console.example",), False),
    ],
)
def test_without_the_option_only_a_console_of_this_machine_alone_writes(
    host: str, allowed_hosts: tuple[str, ...], may_write: bool
) -> None:
    """An allowed name is that of a proxy, which lets others in."""
    assert (no_writing_of(host, allowed_hosts) == "") == may_write


@pytest.mark.parametrize(
    ("body", "why"), [(b"a=" + b"x" * 100, "larger than 64 bytes"), (b"topic=%ff", "cannot be read"), (b"\xff", "read")]
)
async def test_a_form_that_is_too_large_or_broken_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: bytes, why: str
) -> None:
    """The form is refused before any field is used."""
    monkeypatch.setattr(forms, "MOST_BYTES", 64)
    with Broker() as broker:
        async with patient(broker) as client:
            said = await client.post("/produce", content=body, headers=OURS)
    assert said.status_code == 400 and why in text_of(said.text)
