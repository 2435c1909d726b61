"""The console in a real browser: what cannot be seen in a page's source."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

import httpx
import pytest

from oncelog.client import KafkaError, TopicDescription
from oncelog.client.admin.descriptions import PartitionDescription
from oncelog.client.blocking.clients import Consumer, Producer
from oncelog.console.reading import Reader
from oncelog.testing import Broker
from tests.support.console import chromium
from tests.support.console.chromium import Chromium, Page
from tests.support.console.consoles import TIMEOUT_MS, serving
from tests.support.console.layouts import WIDTHS, faults_of
from tests.support.patience import GIVES_UP_MS, PATIENCE_S, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium on the PATH"),
]

SCRIPT = "<script>window.hacked=1</script><img src=x onerror=window.hacked=2><svg onload=window.hacked=3>\"'--></b>"
_IS_LIVE = "document.getElementById('live').dataset.state === 'live'"


class _HostileTopics(Reader):
    """A cluster whose topics have names that Kafka would refuse."""

    async def topic_names(self) -> list[str]:
        return [SCRIPT, "x" * 249]

    async def topics(self, names: Sequence[str]) -> list[TopicDescription]:
        (topic,) = await super().topics(("orders",))
        partitions = (PartitionDescription(0, 1, (1,), (1,)),)
        return [TopicDescription(name, topic.topic_id, partitions, is_internal=False) for name in names]

    async def bounds(self, places):  # type: ignore[no-untyped-def]
        wanted = list(places)
        (found,) = (await super().bounds({each._replace(topic="orders", partition=0) for each in wanted})).values()
        return dict.fromkeys(wanted, found)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with Chromium() as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def page(browser: Chromium) -> Iterator[Page]:
    opened = browser.open("about:blank")
    yield opened
    opened.close()


@pytest.fixture
def console(broker: Broker) -> Iterator[str]:
    with serving(Reader(broker.bootstrap_servers, TIMEOUT_MS)) as address:
        yield address


def _executed(page: Page) -> object:
    """Return the traces that a client's script would have left, and the number of elements of its markup."""
    return page.value("[window.hacked, document.querySelectorAll('#view script, #view img, #view [onload]').length]")


def test_what_clients_chose_is_text_and_runs_nothing(broker: Broker, console: str, page: Page) -> None:
    """Names, keys, values and headers, in pages as they are loaded and in their updates."""
    name = f"evil {SCRIPT}"
    bootstrap = broker.bootstrap_servers
    with (
        Producer(bootstrap, transactional_id=name) as producer,
        Consumer("orders", bootstrap_servers=bootstrap, group_id=name, client_id=name) as consumer,
    ):
        transaction = producer.transaction().__enter__()
        transaction.send("orders", SCRIPT.encode(), key=SCRIPT.encode(), headers=[(SCRIPT, SCRIPT.encode())])
        consumer.poll(1_000)
        quoted = page.value(f"encodeURIComponent({name!r})")
        for path in (
            "/messages?topic=orders&partition=0",
            "/transactions",
            f"/transaction?id={quoted}",
            f"/group?id={quoted}",
            "/steps",
            f"/topics?q={quoted}",
            f"/fence?id={quoted}",
        ):
            page.go(f"{console}{path}")
            if page.value("'live' in document.getElementById('view').dataset"):
                page.wait(_IS_LIVE)
            assert page.wait("document.getElementById('view').textContent.includes('window.hacked=2')"), path
            assert _executed(page) == [None, 0], path
        transaction.abort()


def test_hostile_topic_names_are_text_and_long_ones_stay_in_the_page(broker: Broker, page: Page) -> None:
    broker.produce("orders", b"value")
    with serving(_HostileTopics(broker.bootstrap_servers, TIMEOUT_MS)) as address:
        page.go(f"{address}/topics")
        page.wait(_IS_LIVE)
        assert page.value("document.querySelector('td a').textContent") == SCRIPT
        assert _executed(page) == [None, 0]
        assert page.value("document.documentElement.scrollWidth <= innerWidth")


def test_the_policy_refuses_a_script_that_gets_in_after_all(console: str, page: Page) -> None:
    page.go(f"{console}/topics")
    page.value(
        "const made = document.createElement('script'); made.textContent = 'window.hacked = 4';"
        "document.body.append(made); document.body.setAttribute('onclick', 'window.hacked = 5'); document.body.click()"
    )
    assert page.value("window.hacked") is None


def test_a_batch_that_is_written_appears_and_is_given_its_fate(broker: Broker, console: str, page: Page) -> None:
    broker.create_topic("live")
    page.go(f"{console}/partition?topic=live&partition=0")
    page.wait("document.body.textContent.includes('The partition is empty')")
    with Producer(broker.bootstrap_servers, transactional_id="live") as producer, producer.transaction() as transaction:
        transaction.send("live", b"value")
        page.wait("document.querySelectorAll('.strip a.OPEN').length === 1")
        page.value("document.querySelector('.strip a').focus()")
    page.wait("document.querySelectorAll('.strip a.COMMITTED').length === 1")
    assert page.value("document.activeElement.textContent") == "C", "the focus has moved"
    page.value("document.getElementById('live').click()")
    assert page.value("document.getElementById('live').textContent") == "paused"


def test_a_transaction_is_fenced_after_a_page_that_names_it(broker: Broker, console: str, page: Page) -> None:
    with Producer(broker.bootstrap_servers, transactional_id="fenced soon") as producer:
        transaction = producer.transaction().__enter__()
        transaction.send("orders", b"value")
        page.go(f"{console}/transaction?id=fenced%20soon")
        page.click("a.danger")
        assert "Fence fenced soon?" in page.value("document.querySelector('h1').textContent")
        page.click("#confirm")
        assert page.wait("document.querySelector('.notice').textContent.startsWith('Fenced')")
        assert {each.transactional_id: each.state for each in broker.transactions()}["fenced soon"] == "Empty"
        with suppress(KafkaError):
            transaction.abort()


def test_a_record_is_sent_and_committed_by_buttons_and_half_a_form_survives_updates(
    broker: Broker, console: str, page: Page
) -> None:
    """A person types while the page follows what happens; nothing of it is lost."""
    broker.create_topic("typed")
    page.go(f"{console}/produce")
    fields = {
        "topic": "typed",
        "key": "k",
        "value": '{"cents": 990}',
        "kind": "json",
        "transaction": "new",
        "id": "till",
    }
    _fill(page, fields)
    page.click("#send")
    assert "Written: typed" in page.value("document.querySelector('.notice').textContent")
    _fill(page, {"value": "half a th"})
    page.wait(_IS_LIVE)
    broker.create_topic("made-meanwhile")  # the page offers it: an update
    page.wait("[...document.querySelectorAll('#topics option')].some((each) => each.value === 'made-meanwhile')")
    assert page.value("document.getElementById('value').value") == "half a th"
    for width in WIDTHS:
        page.resize(width)
        assert faults_of(page) == {}, width
    page.click("#commit-1")
    assert page.wait("document.querySelector('td[data-label=\"this producer\"]').textContent === 'committed'")
    assert [each.value for each in broker.records("typed")] == [b'{"cents": 990}']
    assert page.take_errors() == []


def test_a_transaction_is_held_at_a_step_and_released_by_buttons(broker: Broker, page: Page) -> None:
    """The console alone holds and releases each step, from the first record to the last marker."""
    reader = Reader(broker.bootstrap_servers, TIMEOUT_MS, faults=broker._running().admin_port())
    with serving(reader) as address:
        page.go(f"{address}/hold")
        _fill(page, {"of": "lesson", "step": "decided"})
        page.click("#hold")
        page.go(f"{address}/produce")
        _fill(page, {"topic": "lesson", "value": "x", "transaction": "new", "id": "lesson"})
        page.click("#send")
        page.click("#commit-1")
        page.go(f"{address}/hold")
        page.wait("document.querySelector('.held').textContent.includes('marker of lesson-0')")
        for width in WIDTHS:
            page.resize(width)
            assert faults_of(page) == {}, width
        assert broker.records("lesson") == []
        page.click("[id^=all-]")
        page.go(f"{address}/transaction?id=lesson")
        page.wait("document.querySelector('.state').textContent === 'CompleteCommit'")
        assert len(broker.records("lesson")) == 1
        assert page.take_errors() == []


def _fill(page: Page, fields: dict[str, str]) -> None:
    for name, text in fields.items():
        page.value(f"document.getElementById({name!r}).value = {json.dumps(text)}")


def test_a_broker_that_goes_is_said_and_the_page_follows_when_it_is_back(broker: Broker, page: Page) -> None:
    broker.produce("orders", b"value")
    with serving(Reader(broker.bootstrap_servers, GIVES_UP_MS)) as address:
        page.go(f"{address}/topic?topic=orders")
        page.wait(_IS_LIVE)
        broker.stop()
        page.wait("document.getElementById('banner').textContent.includes('does not respond')")
        assert page.value("document.querySelectorAll('.strip a').length") > 0, "what was shown is gone"
        broker.start()
        page.wait(f"document.getElementById('banner').hidden && {_IS_LIVE}")


def _keep(page: Page, selector: str) -> None:
    """Note which element it is now."""
    page.value(f"window.kept = document.querySelector({json.dumps(selector)})")


def _begin(page: Page, console: str, topic: str, transactional_id: str) -> None:
    page.go(f"{console}/produce")
    _fill(page, {"topic": topic, "value": "x", "transaction": "new", "id": transactional_id})
    page.click("#send")
    page.wait(_IS_LIVE)


def _begin_elsewhere(address: str, topic: str, transactional_id: str) -> None:
    """Begin a transaction by another user of the same console: a row above the others."""
    form = {
        "topic": topic,
        "key": "",
        "partition": "",
        "kind": "text",
        "value": "x",
        "headers": "",
        "transaction": "new",
    }
    answer = httpx.post(
        f"{address}/produce",
        data={**form, "id": transactional_id, "timeout": "60000"},
        headers={"Origin": address},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 303


def test_a_button_that_has_the_focus_keeps_it_while_rows_come_above_it(
    broker: Broker, console: str, page: Page
) -> None:
    """The key then commits the transaction whose button it was."""
    broker.create_topic("keys")
    _begin(page, console, "keys", "mine")
    commit = page.value("document.querySelector('[id^=commit-]').id")
    page.value(f"document.getElementById({commit!r}).focus()")
    _keep(page, f"#{commit}")
    for number in range(3):
        _begin_elsewhere(console, "keys", f"other-{number}")
        page.wait(f"document.getElementById('view').textContent.includes('other-{number}')")
        assert page.value(f"document.activeElement.id === {commit!r} && document.activeElement === window.kept")
    page.key("Enter", "Enter", "\r", number=13)
    page.wait_loaded()
    page.wait("document.getElementById('view').textContent.includes('committed')")
    until(lambda: _state(broker, "mine") == "CompleteCommit")
    assert _state(broker, "other-2") == "Ongoing"


def test_a_click_counts_though_the_view_is_updated_while_the_button_is_down(
    broker: Broker, console: str, page: Page
) -> None:
    """The update waits for the click, and is shown after it."""
    broker.create_topic("clicks")
    for number in range(5):
        page.go(f"{console}/produce")
        page.wait(_IS_LIVE)
        _fill(page, {"topic": "clicks", "value": f"click {number}"})
        page.value("window.heard = 0; source.addEventListener('view', () => { window.heard += 1; })")
        page.mouse("mousePressed", "#send")
        _begin_elsewhere(console, "clicks", f"meanwhile-{number}")
        page.wait("window.heard > 0")
        page.mouse("mouseReleased", "#send")
        page.wait_loaded()
        page.wait("document.querySelector('.notice')?.textContent.includes('Written: clicks')")
        page.wait(f"document.getElementById('view').textContent.includes('meanwhile-{number}')")


def test_what_came_while_a_button_was_down_is_shown_after_it(broker: Broker, console: str, page: Page) -> None:
    """The rows are shown even if the press was no click, and nothing else changes after it."""
    broker.create_topic("held")
    page.go(f"{console}/produce")
    page.wait(_IS_LIVE)
    page.mouse("mousePressed", "h1")
    _begin_elsewhere(console, "held", "while-held")
    page.wait("pending !== null")
    assert not page.value("document.getElementById('view').textContent.includes('while-held')")
    assert page.value("document.getElementById('live-text').textContent") == "held"
    page.mouse("mouseReleased", "h1")
    page.wait("document.getElementById('view').textContent.includes('while-held')")


def test_a_list_of_choices_holds_updates_while_it_is_open_and_not_while_it_has_the_focus(
    broker: Broker, console: str, page: Page
) -> None:
    """It is open from the press to a choice, Escape or the loss of focus. The press of another button holds none."""
    broker.create_topic("chosen")
    page.go(f"{console}/produce")
    page.wait(_IS_LIVE)
    kind = "document.getElementById('kind')"
    page.value(f"{kind}.focus()")
    down = "new PointerEvent('pointerdown', {bubbles: true, button: %d})"
    page.value(f"{kind}.dispatchEvent({down % 2})")
    closing = (
        ("change", "{bubbles: true}"),
        ("keydown", "{bubbles: true, key: 'Escape'}"),
        ("focusout", "{bubbles: true}"),
    )
    for number, (name, options) in enumerate(closing):
        _begin_elsewhere(console, "chosen", f"focus-{number}")
        page.wait(f"document.getElementById('view').textContent.includes('focus-{number}') && {_IS_LIVE}")
        page.value("document.getElementById('value').focus(); document.execCommand('insertText', false, 'half')")
        page.value(f"{kind}.dispatchEvent({down % 0}); {kind}.focus(); document.dispatchEvent(new Event('pointerup'))")
        _begin_elsewhere(console, "chosen", f"open-{number}")
        page.wait("document.getElementById('live-text').textContent === 'held'")
        assert not page.value(f"document.getElementById('view').textContent.includes('open-{number}')")
        event = "KeyboardEvent" if name == "keydown" else "Event"
        page.value(f"{kind}.dispatchEvent(new {event}({name!r}, {options}))")
        page.wait(f"document.getElementById('view').textContent.includes('open-{number}') && {_IS_LIVE}")
    assert page.value("document.activeElement.id") == "kind"


def test_selected_text_opened_details_scrolled_tables_and_typed_forms_survive_updates(
    broker: Broker, console: str, page: Page
) -> None:
    broker.create_topic("survives")
    _begin(page, console, "survives", "first")
    page.resize(620)
    page.value("document.querySelector('details.numbers').open = true")
    page.value("document.getElementById('value').focus(); document.execCommand('insertText', false, 'half')")
    page.value("document.getElementById('value').setSelectionRange(1, 3)")
    _begin_elsewhere(console, "survives", "second")
    page.wait("document.getElementById('view').textContent.includes('second')")
    assert page.value("document.querySelector('details.numbers').open")
    field = "document.getElementById('value')"
    assert page.value(f"[{field}.value, {field}.selectionStart, {field}.selectionEnd]") == ["half", 1, 3]
    assert page.value("document.activeElement.id") == "value"
    page.value(f"{field}.blur(); getSelection().selectAllChildren(document.querySelector('h1'))")
    _begin_elsewhere(console, "survives", "third")
    page.wait("pending !== null")
    assert page.value("getSelection().toString()") == "Produce"
    page.value("getSelection().removeAllRanges()")
    page.wait("document.getElementById('view').textContent.includes('third')")


def test_an_update_gives_the_page_that_a_load_gives(broker: Broker, console: str, page: Page) -> None:
    """A change in place, whatever was added, removed, moved or changed, gives the same markup as a page that is
    loaded.
    """
    page.go(f"{console}/produce")
    page.wait(_IS_LIVE)
    page.value("document.getElementById('live').click()")
    views = [
        "<p>one</p><table><tbody><tr><td id='a'>a</td></tr><tr><td id='b'>b</td></tr></tbody></table>",
        "<table class='x'><tbody><tr><td id='b'>b</td></tr><tr><td id='a'>A</td></tr></tbody></table>",
        "<p>two</p><h2>h</h2><table><tbody><tr><td id='c'><button id='k'>k</button></td></tr></tbody></table>",
        "<p>two</p><ul><li><a href='/1'>1</a></li><li><a href='/2'>2</a></li><li><a href='/1'>3</a></li></ul>",
        "<ul><li><a href='/2'>2</a></li><li><a href='/1'>3</a></li><li><a href='/3' title='t'>3</a></li></ul>text",
        "",
        "text<form id='f'><select><option value='1'>1</option><option value='2'>2</option></select></form>",
    ]
    for first in views:
        for second in views:
            for focused in ("a", "b", "k", ""):
                found = page.value(
                    f"put({json.dumps(first)}); document.getElementById({focused!r})?.focus(); "
                    f"put({json.dumps(second)}); view.innerHTML"
                )
                assert found == second.replace("'", '"'), (first, second)


def _state(broker: Broker, transactional_id: str) -> str:
    return {each.transactional_id: each.state for each in broker.transactions()}[transactional_id]
