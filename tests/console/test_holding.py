"""Transactions that are held at a step from the console and released: what each step shows, and which consoles may."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html import unescape

import httpx
import pytest

from oncelog.client import NewTopic
from oncelog.client.blocking.clients import Admin
from oncelog.console import writing
from oncelog.console.holding import STEPS
from oncelog.console.reading import Reader
from oncelog.faults import Action, Point, Rule
from oncelog.http_port import HttpPort
from oncelog.testing import Broker
from tests.support.console.consoles import OURS, TIMEOUT_MS, console, text_of
from tests.support.patience import PATIENCE_MS


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        with Admin(running.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("orders", 2))
        yield running


@asynccontextmanager
async def teaching(broker: Broker, **rights: object) -> AsyncIterator[httpx.AsyncClient]:
    """A console that may hold."""
    reader = Reader(broker.bootstrap_servers, PATIENCE_MS, faults=broker._running().admin_port())
    async with console(reader, **rights) as client:  # type: ignore[arg-type]
        yield client


async def send(client: httpx.AsyncClient, partition: int, transaction: str = "new") -> str:
    fields = {"topic": "orders", "value": "x", "partition": str(partition), "transaction": transaction}
    done = await client.post("/produce", data={**fields, "id": "till", "timeout": "60000"}, headers=OURS)
    return text_of((await client.get(done.headers["location"])).text)


async def hold(client: httpx.AsyncClient, step: str, transactional_id: str = "till") -> str:
    done = await client.post("/hold", data={"step": step, "id": transactional_id}, headers=OURS)
    assert done.status_code == 303, text_of(done.text)
    return text_of((await client.get(done.headers["location"])).text)


async def release(client: httpx.AsyncClient, how: str) -> str:
    action = re.search(rf'action="(/release\?[^"]*how={how})"', (await client.get("/hold")).text)
    assert action is not None
    await client.post(unescape(action[1]), headers=OURS)
    return text_of((await client.get("/hold")).text)


async def shown(client: httpx.AsyncClient, path: str, words: str) -> str:
    """The page, once it says these words."""
    while words not in (text := text_of((await client.get(path)).text)):
        pass
    return text


async def test_a_record_that_is_held_on_its_way_is_not_in_the_log_until_it_is_released(broker: Broker) -> None:
    """The producer says that it has no acknowledgement."""
    async with teaching(broker) as client:
        await send(client, 0)
        assert "a record is on its way till Ongoing nothing yet" in await hold(client, "sent")
        assert "Sent, and not acknowledged yet" in await send(client, 0, "1")
        await shown(client, "/hold", "Produce of orders-0, till")
        assert len(broker.records("orders", isolation="read_uncommitted")) == 1
        assert "Nothing is held" in await release(client, "all")
        assert "not acknowledged" not in await shown(client, "/produce", "orders -0 1")
        assert len(broker.records("orders", isolation="read_uncommitted")) == 2


@pytest.mark.parametrize(("how", "ended"), [("commit", "committed"), ("abort", "aborted")])
async def test_an_end_that_is_held_on_its_way_leaves_the_transaction_open(broker: Broker, how: str, ended: str) -> None:
    """The end takes effect once it is released."""
    async with teaching(broker) as client:
        await send(client, 0)
        await hold(client, "asked")
        await client.post(f"/end?number=1&how={how}", headers=OURS)
        assert "EndTxn, till" in await shown(client, "/hold", "EndTxn")
        assert f"1 till {_doing(how)} : {how} asked, no response yet Ongoing" in text_of(
            (await client.get("/produce")).text
        )
        await release(client, "one")
        await shown(client, "/produce", f"1 till {ended}")
        assert len(broker.records("orders")) == (how == "commit")


def _doing(how: str) -> str:
    return {"commit": "committing", "abort": "aborting"}[how]


async def test_markers_are_released_one_by_one_and_readers_with_them(broker: Broker) -> None:
    """The commit succeeds; a partition whose marker is held is a partition whose readers wait."""
    async with teaching(broker) as client:
        await send(client, 0)
        await send(client, 1, "1")
        await hold(client, "decided")
        await client.post("/end?number=1&how=commit", headers=OURS)
        await shown(client, "/produce", "1 till committed PrepareCommit")
        held = await shown(client, "/hold", "marker of orders-0, till")
        assert "decided, without a marker till PrepareCommit" in held and "marker of orders-1, till" in held
        assert broker.records("orders") == []
        assert "marker of orders-0" not in await release(client, "one")
        while not (read := broker.records("orders")):
            pass
        assert [each.partition for each in read] == [0]
        assert "Decided: COMMIT, waiting for markers" in text_of((await client.get("/transaction?id=till")).text)
        await release(client, "all")
        await shown(client, "/transaction?id=till", "state CompleteCommit")
        assert [each.partition for each in broker.records("orders")] == [0, 1]


async def test_a_marker_that_the_coordinator_does_not_know_of_is_read_and_nothing_is_complete(broker: Broker) -> None:
    """Readers need the marker; the coordinator needs to know of it."""
    async with teaching(broker) as client:
        await send(client, 0)
        await hold(client, "marked", "")
        await client.post("/end?number=1&how=commit", headers=OURS)
        await shown(client, "/hold", "marker of orders-0, till")
        assert len(broker.records("orders")) == 1
        assert "till PrepareCommit" in text_of((await client.get("/transactions")).text)
        await release(client, "all")
        await shown(client, "/transaction?id=till", "state CompleteCommit")


async def test_a_response_that_is_held_leaves_the_producer_without_an_answer_to_what_is_done(broker: Broker) -> None:
    """A committed record is read while the producer does not know the outcome."""
    async with teaching(broker) as client:
        await send(client, 0)
        await hold(client, "answered")
        await client.post("/end?number=1&how=commit", headers=OURS)
        await shown(client, "/produce", "commit asked, no response yet CompleteCommit")
        assert len(broker.records("orders")) == 1
        await release(client, "all")
        await shown(client, "/produce", "1 till committed")


async def test_rules_of_others_are_counted_and_left_alone(broker: Broker) -> None:
    """A test that plants faults in the same broker loses none to a person with a mouse."""
    other = broker.faults.plant(Rule(Point.ANSWER, Action.DELAY, delay_ms=1, times=None))
    async with teaching(broker) as client:
        assert "1 other rule of fault injection is planted" in await hold(client, "asked")
        await release(client, "all")
    assert [each.number for each in broker.faults.statuses()] == [other]


async def test_a_step_is_held_once_however_often_it_is_asked_for(broker: Broker) -> None:
    """One button releases it."""
    async with teaching(broker) as client:
        for transactional_id in ("till", "till", ""):
            await hold(client, "asked", transactional_id)
        assert [each.rule.get("transactional_id") for each in broker.faults.statuses()] == ["till", None]


async def test_records_that_wait_for_an_acknowledgement_have_a_limit(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form that is sent again and again fills no memory while the broker is held."""
    monkeypatch.setattr(writing, "MOST_WAITING", 1)
    async with teaching(broker) as client:
        await send(client, 0)
        await hold(client, "sent")
        await send(client, 0, "1")
        fields = {"topic": "orders", "value": "x", "partition": "0", "transaction": "1"}
        refused = await client.post("/produce", data=fields, headers=OURS)
        assert refused.status_code == 400 and "1 records of transaction 1 are not acknowledged" in refused.text
        await release(client, "all")
        await shown(client, "/produce", "orders -0 1")


def test_every_step_is_a_rule_of_its_own() -> None:
    """No two could be mistaken for each other in the list of rules."""
    rules = [repr(each.rule("till").as_json()) for each in STEPS]
    assert len({*rules}) == len(rules) == len({each.name for each in STEPS})


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rights", [{"read_only": True}, {"no_writing": "no --allow-produce"}])
async def test_a_console_that_writes_nothing_holds_nothing(broker: Broker, rights: dict[str, object]) -> None:
    """It says by which option, on the page and to a form that comes all the same."""
    async with teaching(broker, **rights) as client:
        page = (await client.get("/hold")).text
        refused = [
            await client.post("/hold", data={"step": "asked"}, headers=OURS),
            await client.post("/release?number=1&how=all", headers=OURS),
        ]
    assert "<form" not in page and "--" in text_of(page)
    assert [(each.status_code, "--" in each.text) for each in refused] == [(403, True)] * 2
    assert broker.faults.statuses() == []


async def test_a_form_of_another_site_holds_nothing(broker: Broker) -> None:
    """A form without this console's origin is refused, as with every change."""
    async with teaching(broker) as client:
        for headers in ({}, {"origin": "http://evil.example"}):
            refused = await client.post("/hold", data={"step": "asked"}, headers=headers)
            assert refused.status_code == 403
    assert broker.faults.statuses() == []


async def test_without_an_address_for_faults_the_page_says_how_to_give_one(broker: Broker) -> None:
    """No page leads to it then."""
    async with console(broker.bootstrap_servers) as client:
        page = (await client.get("/hold")).text
        refused = await client.post("/hold", data={"step": "asked"}, headers=OURS)
    assert "--faults 127.0.0.1:9644" in text_of(page) and 'href="/hold"' not in page
    assert refused.status_code == 400 and "--faults" in refused.text


async def test_a_port_for_faults_that_is_away_is_not_a_cluster_that_does_not_respond(broker: Broker) -> None:
    """The page names the port; the others are shown."""
    reader = Reader(broker.bootstrap_servers, TIMEOUT_MS, faults=HttpPort("127.0.0.1:9"))
    async with console(reader) as client:
        away = await client.get("/hold")
        assert (await client.get("/transactions")).status_code == 200
    assert away.status_code == 502 and "port for faults" in text_of(away.text)
    assert "The cluster does not respond" not in away.text


async def test_a_step_that_there_is_not_and_a_rule_that_is_gone_are_said(broker: Broker) -> None:
    """Nothing is planted for what cannot be read."""
    async with teaching(broker) as client:
        assert (await client.post("/hold", data={"step": "nowhere"}, headers=OURS)).status_code == 400
        gone = await client.post("/release?number=99&how=all", headers=OURS)
    assert gone.status_code == 502 and "no rule has the number 99" in gone.text
    assert broker.faults.statuses() == []
