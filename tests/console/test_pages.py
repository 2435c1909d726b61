"""What the console's pages say of a broker, and what they do to it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path

import httpx
import pytest

from oncelog import ProducerFenced
from oncelog.client import NewTopic
from oncelog.client.admin.descriptions import ListedGroup, TopicDescription
from oncelog.client.blocking.clients import Admin, Consumer, Producer
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.client.values.records import TopicPartition
from oncelog.console import pages, reading
from oncelog.console.app import create_app
from oncelog.console.pages import PAGES
from oncelog.console.partition_map import Bounds
from oncelog.console.reading import Reader
from oncelog.console.security import HEADERS
from oncelog.http_port import HttpPort
from oncelog.testing import Broker
from oncelog.tools.log.map.partition import MEANINGS, State
from oncelog.tools.log.map.reader import read_map
from oncelog.tools.log.points import known_points
from tests.conftest import Start
from tests.support.console.consoles import OURS, TIMEOUT_MS, console, letters_of, text_of
from tests.support.console.scene import ADDRESSES, scene
from tests.support.patience import GIVES_UP_MS
from tests.support.transactions.hanging import hang

_WITHOUT_NUMBERS = {"/fence", "/abort", "/findings", "/settings", "/produce", "/hold"}


@dataclass(frozen=True)
class Cluster:
    bootstrap: str
    files: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    files = tmp_path_factory.mktemp("broker")
    with Broker(storage=files, config={"oncelog.flush.policy": "os"}) as broker, scene(broker.bootstrap_servers):
        yield Cluster(broker.bootstrap_servers, files)


def test_there_is_an_address_to_try_for_every_page() -> None:
    assert set(ADDRESSES) == set(PAGES)


async def test_every_page_is_there_and_lets_no_script_in(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        for path, query in ADDRESSES.items():
            response = await client.get(path, params=query)
            assert response.status_code == 200, path
            assert all(response.headers[name] == value for name, value in HEADERS.items()), path
            assert "unsafe" not in response.headers["content-security-policy"]
            assert response.headers["cache-control"] == "no-store"
        for path in ("/nowhere", "/static/nothing.js"):
            assert (await client.get(path)).headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


async def test_the_map_draws_each_batch_and_the_offsets_that_bound_readers(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        page = (await client.get("/partition", params=ADDRESSES["/partition"])).text
    assert letters_of(page) == ".CcAaCcAAaCCcOOOOCCCc"
    assert re.findall(r"<b>([^<]*)</b><i>(\d+)</i>", page) == [("start", "0"), ("LSO", "13"), ("HW=end", "21")]
    assert page.count(" unstable") >= 8 and "8 offsets" in text_of(page)
    assert "till-2" in text_of(page)


async def test_the_map_is_the_one_that_log_map_draws_of_the_files(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        for partition in range(3):
            page = (await client.get("/partition", params={"topic": "orders", "partition": partition})).text
            drawn = read_map(cluster.files / f"orders-{partition}", known_points(cluster.files, "orders", partition))
            assert letters_of(page) == "".join(MEANINGS[State(state)][0] for state in drawn.states)


async def test_messages_have_their_fate_and_markers_are_among_them(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        page = (await client.get("/messages", params=ADDRESSES["/messages"])).text
    shown = re.findall(r'<span class="cell [A-Z_]+[^>]*>(.)</span></td><td [^>]*class="number">(\d+)</td>', page)
    assert shown == [(letter, str(offset)) for offset, letter in enumerate(".CcAaCcAAaCCcOOOOCCCc")]
    text = text_of(page)
    assert "last stable offset 13: read_committed readers stop here" in text
    assert "shop-7 apples" in text and "ABORT, coordinator epoch" in text


async def test_json_is_laid_out_where_it_is_opened_and_everywhere_if_the_address_says_so() -> None:
    """Line by line, indented; the links of the page keep what was chosen."""
    with Broker() as broker:
        broker.produce("orders", b'{"order": 1, "lines": [{"sku": "a"}]}')
        async with console(broker.bootstrap_servers) as client:
            closed = (await client.get("/messages?topic=orders&partition=0")).text
            opened = (await client.get("/messages?topic=orders&partition=0&json=lines")).text
    lines = ["{", '  "order": 1,', '  "lines": [', "    {", '      "sku": "a"', "    }", "  ]", "}"]
    for page in (closed, opened):
        assert [unescape(each) for each in re.findall(r"<div>([^<]*)</div>", page)] == lines
    assert ('<details class="json">' in closed, '<details class="json" open>' in opened) == (True, True)
    assert "json=lines" in re.findall(r'href="([^"]*)">⇤ start', opened)[0]


async def test_a_search_goes_through_the_partitions_step_by_step_and_says_how_far_it_was() -> None:
    """Following its links finds every message once, and then it says that it is at the end."""
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("orders", 20))
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(180):
                producer.send("orders", b'{"order": %d, "city": "Zug"}' % number, partition=number % 3 * 9)
            producer.send("orders", b'{"city": "Bern"}', partition=0)
        async with console(broker.bootstrap_servers) as client:
            first = (await client.get("/search?topic=orders&path=city&equals=Zug&state=PLAIN")).text
            onward = re.search(r'id="goes-on" href="([^"]*)"', first)
            assert onward is not None
            second = (await client.get(unescape(onward[1]))).text
            one = text_of((await client.get("/search?topic=orders&partition=9&text=zug&from=58")).text)
            nothing = text_of((await client.get("/search?topic=orders&partition=1&text=zug")).text)
    found = [
        re.findall(r"/messages\?topic=orders&amp;partition=(\d+)&amp;from=(\d+)", each) for each in (first, second)
    ]
    assert [len(each) for each in found] == [100, 80] and len({*found[0], *found[1]}) == 180
    looked = "100 messages found in 101 records: orders -0 from 0 to 60, orders -9 from 0 to 39. One look ends"
    assert looked in text_of(first)
    assert "Go on: orders-9 from offset 40" in text_of(first)
    assert "80 messages found" in text_of(second) and "That is all up to the end" in text_of(second)
    assert 'goes-on"' not in second
    assert "2 messages found in 2 records: orders -9 from 58 to 59. That is all" in one
    assert "0 messages found in 0 records: nothing is there. That is all" in nothing


async def test_a_look_of_a_search_reads_no_more_of_a_topic_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes and partitions that a look reads are bounded, whatever is found."""
    read: list[int] = []

    class Counting(Reader):
        async def batches(self, place: TopicPartition, start: int, bounds: Bounds, count: int) -> list[RawBatch]:
            found = await super().batches(place, start, bounds, count)
            read.append(sum(len(each.data) for each in found))
            return found

    monkeypatch.setattr(reading, "MAX_WINDOW_BYTES", 20_000)
    monkeypatch.setattr(reading, "_SEARCHED_PARTITIONS", 3)
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("large", 5), NewTopic("wide", 5))
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(5):
                producer.send("wide", b"value", partition=number)
                for _ in range(10):
                    producer.send("large", bytes(9_000), partition=number)
                    producer.flush()
        async with console(Counting(broker.bootstrap_servers, TIMEOUT_MS)) as client:
            large = text_of((await client.get("/search?topic=large&text=nowhere")).text)
            assert sum(read) < 40_000
            wide = text_of((await client.get("/search?topic=wide&text=nowhere")).text)
    assert "0 messages found in 3 records: large -0 from 0 to 2. One look ends here." in large
    assert "Go on: large-0 from offset 3" in large
    assert "Go on: wide-3 from offset 0" in wide


async def test_the_settings_of_a_topic_are_shown_those_that_were_set_first() -> None:
    """They have the units that people write, and are exact."""
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("orders", 1, configs={"retention.ms": "86400000"}))
        async with console(broker.bootstrap_servers) as client:
            text = text_of((await client.get("/settings?topic=orders")).text)
            assert (await client.get("/settings?topic=nothing")).status_code == 404
    assert "setting value from retention. ms 1d 86400000 set for this topic" in text
    assert re.search(r"cleanup\. policy delete default", text)


async def test_the_overview_says_how_many_partitions_each_node_leads(cluster: Cluster) -> None:
    """One that leads none stands by."""
    with Admin(cluster.bootstrap) as admin:
        topics = admin.describe_topics(*admin.list_topics(include_internal=True))
    count = sum(topic.partition_count for topic in topics)
    async with console(cluster.bootstrap) as client:
        page = text_of((await client.get("/")).text)
    assert f"{cluster.bootstrap} {count:,} controller" in page


async def test_messages_end_with_the_last_one_however_many_a_batch_has(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        page = (await client.get("/messages", params={"topic": "payments", "partition": "0"})).text
    end = int(re.findall(r"<dt>high watermark</dt><dd>(\d+)", page)[0])
    offsets = [int(each) for each in re.findall(r'</span></td><td [^>]*class="number">(\d+)</td>', page)]
    assert offsets == list(range(end - 100, end))


async def test_windows_begin_where_the_address_says_and_lead_on(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        query = {"topic": "orders", "partition": "0", "from": "7"}
        page = (await client.get("/partition", params=query)).text
        assert letters_of(page) == "AAaCCcOOOOCCCc"
        older = re.search(r'href="(/partition[^"]*)">← older', page)
        assert older is not None
        assert letters_of((await client.get(unescape(older[1]))).text) == ".CcAaCcAAaCCcOOOOCCCc"


async def test_a_group_shows_what_is_committed_and_what_is_pending_in_whose_transaction(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        group = text_of((await client.get("/group", params=ADDRESSES["/group"])).text)
        groups = text_of((await client.get("/groups")).text)
    assert "orders -2 3 O 7 till-2 7 7 4" in group
    assert "orders -0 1 – 13 21 20" in group
    assert "billing Empty classic 24 O 1" in groups


async def test_transactions_are_the_oldest_first_with_their_partitions_and_steps(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        listed = text_of((await client.get("/transactions")).text)
        one = text_of((await client.get("/transaction", params=ADDRESSES["/transaction"])).text)
        steps = text_of((await client.get("/steps", params={"q": "till-1"})).text)
        found = text_of((await client.get("/transactions", params={"q": "nightly"})).text)
        producers = text_of((await client.get("/producers", params=ADDRESSES["/producers"])).text)
    assert re.search(
        r"till-2 Ongoing .* of 5 min 0 s .*nightly-export Ongoing .* of 5 min 0 s.*till-1 CompleteCommit", listed
    )
    assert "orders -0 payments -0" in one and "Empty → Ongoing 2:0 0 ms orders-0" in one
    assert "PrepareAbort → CompleteAbort" in steps and "till-2" not in steps
    assert "nightly-export" in found and "till" not in found
    assert re.search(r"2 0 \d+ [-0-9]+ [:.0-9]+ O 13 – till-2", producers)


async def test_internal_logs_are_decoded(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        page = (await client.get("/transaction", params=ADDRESSES["/transaction"])).text
        offsets = re.search(r"__consumer_offsets<span class=\"index\">-(\d+)", page)
        assert offsets is not None
        query = {"topic": "__consumer_offsets", "partition": offsets[1], "from": "0"}
        text = text_of((await client.get("/messages", params=query)).text)
    assert '"group": "billing"' in text and '"offset": 7' in text


async def test_findings_of_a_witness_are_shown_as_text_and_without_one_the_page_says_how() -> None:
    name = "<b>billing</b>"
    with Broker() as broker:
        broker.produce("orders", b"an order")
        settings = {"bootstrap_servers": broker.bootstrap_servers, "client_id": name}
        with (
            Producer(transactional_id="till", **settings) as producer,
            Consumer("orders", group_id=name, **settings) as consumer,
        ):
            with producer.transaction() as transaction:
                transaction.send("invoices", b"an invoice")
            consumer.poll(1_000)
            consumer.commit_sync()
        witness = broker._running().admin_port()
        async with console(Reader(broker.bootstrap_servers, TIMEOUT_MS, witness)) as client:
            page = (await client.get("/findings")).text
        async with console(broker.bootstrap_servers) as client:
            without = text_of((await client.get("/findings")).text)
        async with console(Reader(broker.bootstrap_servers, TIMEOUT_MS, HttpPort("127.0.0.1:9"))) as client:
            away = await client.get("/findings")
    assert "offsets-outside-transaction" in text_of(page) and f"client {name} at" in text_of(page)
    assert name not in page
    assert "--metrics HOST:PORT" in without
    assert away.status_code == 502 and "The witness cannot be asked" in away.text
    assert "The cluster does not respond" not in away.text, "it does"


async def test_a_witness_that_is_off_is_not_a_cluster_that_does_not_respond() -> None:
    """The page names the witness, and the setting that starts it."""
    with Broker(config={"oncelog.witness.enable": "false"}) as broker:
        async with console(Reader(broker.bootstrap_servers, TIMEOUT_MS, broker._running().admin_port())) as client:
            text = text_of((await client.get("/findings")).text)
    assert "The witness cannot be asked" in text and "the witness is off" in text
    assert "oncelog.witness.enable=true" in text and "The cluster" not in text


async def test_what_is_not_there_or_cannot_be_is_said(cluster: Cluster) -> None:
    wrong = {
        "/topic?topic=nothing": 404,
        "/partition?topic=orders&partition=9": 404,
        "/transaction?id=nobody": 404,
        "/group?id=nobody": 404,
        "/partition?topic=orders": 400,
        "/partition?topic=orders&partition=x": 400,
        "/partition?topic=orders&partition=99999999999": 404,
        "/topic": 400,
        "/search?topic=orders&text=a&state=LOST": 400,
        "/search?topic=orders&path=a..b": 400,
        "/search?topic=orders&text=a&at=7": 400,
        "/search?topic=orders&text=a&partition=7": 404,
        "/topic?topic=%2e%2e%2f%00": 404,
    }
    async with console(cluster.bootstrap) as client:
        assert {path: (await client.get(path)).status_code for path in wrong} == wrong
        assert "no partition 9" in text_of((await client.get("/partition?topic=orders&partition=9")).text)


async def test_thousands_of_topics_are_pages_of_a_list_and_can_be_searched() -> None:
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(*(f"topic-{number:03}" for number in range(120)))
        async with console(broker.bootstrap_servers) as client:
            listed = [(await client.get("/topics", params={"page": number})).text for number in (1, 2, 3)]
            found = (await client.get("/topics", params={"q": "-11"})).text
    names = [re.findall(r"topic=(topic-\d+)", page) for page in listed]
    assert [len(each) for each in names] == [50, 50, 20] and len({name for each in names for name in each}) == 120
    assert "page 2 of 3, 120 in all" in text_of(listed[1])
    assert re.findall(r"topic=(topic-\d+)", found) == [f"topic-11{digit}" for digit in range(10)]


async def test_a_topic_of_a_hundred_partitions_shows_its_figures() -> None:
    """The figures are in the list of topics, and on its own page though that shows twelve partitions at a time."""
    with Broker() as broker:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("hundred", 100))
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(100):
                producer.send("hundred", b"value", partition=number)
        with Producer(broker.bootstrap_servers, transactional_id="till") as producer:
            transaction = producer.transaction().__enter__()
            transaction.send("hundred", b"value", partition=99)
            producer.flush()
            async with console(broker.bootstrap_servers) as client:
                topics = text_of((await client.get("/topics")).text)
                topic = text_of((await client.get("/topic?topic=hundred")).text)
            transaction.abort()
    assert "hundred 100 101 O 1" in topics
    assert "partitions 100 offsets held 101 behind open transactions 1 offset" in topic


async def test_topics_whose_partitions_are_too_many_to_be_summed_up_leave_the_others_their_figures(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit on summed partitions is spent on the topics in order; a topic that is too large takes none of it."""
    monkeypatch.setattr(pages, "_PARTITIONS_SUMMED", 3)
    async with console(cluster.bootstrap) as client:
        topics = text_of((await client.get("/topics")).text)
    assert "__consumer_offsets internal 50 – –" in topics
    assert re.search(r"orders 3 \d+ O \d+ payments 1 – –", topics)


@pytest.mark.parametrize("path", sorted({*ADDRESSES} - _WITHOUT_NUMBERS))
async def test_every_number_has_a_legend(cluster: Cluster, path: str) -> None:
    """The legend below a page has the heading of each of its columns of numbers and of each of its figures."""
    async with console(cluster.bootstrap) as client:
        page = (await client.get(path, params=ADDRESSES[path])).text
    body, _, legend = page.partition('<details class="numbers">')
    columns = re.findall(r'<th class="number">([^<]+)</th>', body)
    figures = re.findall(r"<dt>([^<]+)</dt><dd>(?:<[^>]*>)*\s*[0-9]", body)
    explained = re.findall(r"<dt>([^<]+)</dt><dd>[^<]{10,}</dd>", legend)
    assert columns or figures
    assert {*columns, *figures} <= set(explained) and len(set(explained)) == len(explained)


class _Troubled(Reader):
    """A cluster with a partition without a leader, and a group that is gone when it is asked for."""

    async def topics(self, names: Sequence[str]) -> list[TopicDescription]:
        def without_leader(topic: TopicDescription) -> TopicDescription:
            first, *others = topic.partitions
            return replace(topic, partitions=(replace(first, leader=-1), *others))

        return [without_leader(each) for each in await super().topics(names)]

    async def groups(self) -> list[ListedGroup]:
        return [*await super().groups(), ListedGroup("gone", 1, "", "", "share")]


async def test_what_cannot_be_asked_is_said_where_it_is_and_the_rest_is_shown(cluster: Cluster) -> None:
    async with console(_Troubled(cluster.bootstrap, TIMEOUT_MS)) as client:
        topics = text_of((await client.get("/topics")).text)
        topic = text_of((await client.get("/topic?topic=orders")).text)
        groups = text_of((await client.get("/groups")).text)
    assert "orders 1 partition without a leader 3 21 O 4" in topics
    assert "orders -0 no leader" in topic and "orders -1 14 offsets" in topic
    assert "billing Empty classic 24" in groups and "gone share – none" in groups


async def test_open_transactions_beyond_those_that_are_described_are_listed_too(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_DESCRIBED", 1)
    async with console(cluster.bootstrap) as client:
        text = text_of((await client.get("/transactions")).text)
    first, _, others = text.partition("Open or decided too")
    assert re.search("nightly-export Ongoing .* of 5 min 0 s", first)
    assert "till-2 Ongoing" in others and "till-1" in others.partition("Nothing open")[2]


async def test_an_empty_cluster_says_that_it_is_empty() -> None:
    with Broker() as broker:
        async with console(broker.bootstrap_servers) as client:
            said = {path: text_of((await client.get(path)).text) for path in PAGES if not PAGES[path].title.count("{")}
    assert "No transaction is open" in said["/"]
    assert "There is no topic yet" in said["/topics"]
    assert "No producer has used a transactional id yet" in said["/transactions"]
    assert "There is no group yet" in said["/groups"]
    assert "No transaction has been logged yet" in said["/steps"]


async def test_a_broker_that_is_down_is_said_before_the_first_page_and_between_two() -> None:
    with Broker() as broker:
        broker.produce("orders", b"value")
        broker.stop()
        async with console(broker.bootstrap_servers, timeout_ms=GIVES_UP_MS) as client:
            for _ in range(2):
                away = await client.get("/topic?topic=orders")
                assert (away.status_code, "does not respond" in away.text, "data-live" in away.text) == (
                    502,
                    True,
                    True,
                )
                broker.start()
                while (await client.get("/topic?topic=orders")).status_code != 200:
                    pass  # on a busy machine an answer takes longer than this console waits
                broker.stop()


# --- changing ---------------------------------------------------------------------------------------------------------


async def test_fencing_names_the_id_first_and_then_aborts_and_rejects_its_producer() -> None:
    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="a/b?<i>") as producer:
        transaction = producer.transaction().__enter__()
        transaction.send("orders", b"never seen")
        async with console(broker.bootstrap_servers) as client:
            asked = (await client.get("/fence", params={"id": "a/b?<i>"})).text
            action = re.search(r'<form method="post" action="([^"]*)"', asked)
            assert action is not None and "Fence a/b?<i>" in text_of(asked) and "<i>" not in asked
            assert [each.state for each in broker.transactions()] == ["Ongoing"]
            done = await client.post(unescape(action[1]), headers=OURS)
            assert done.status_code == 303
            after = text_of((await client.get(done.headers["location"])).text)
        assert "Fenced: producers of this id below epoch" in after
        assert [each.state for each in broker.transactions()] == ["Empty"]
        assert broker.records("orders") == []
        with pytest.raises(ProducerFenced):
            transaction.commit()


async def test_nothing_changes_for_another_site_for_a_look_or_on_a_console_that_only_reads(cluster: Cluster) -> None:
    for path in ("/fence?id=till-2", "/abort?topic=orders&partition=0&start=13"):
        async with console(cluster.bootstrap) as client:
            assert (await client.post(path, headers={"origin": "http://evil.example"})).status_code == 403
            assert (await client.post(path)).status_code == 403
            assert (await client.get(path)).status_code == 200
            assert (await client.get(path, headers={"host": "evil.example"})).status_code == 403
        async with console(cluster.bootstrap, read_only=True) as client:
            assert (await client.post(path, headers=OURS)).status_code == 403
            assert 'method="post"' not in (await client.get(path)).text
            assert "Fence" not in (await client.get("/transactions")).text
        with Admin(cluster.bootstrap) as admin:
            assert admin.list_transactions()["till-2"] == "Ongoing"


async def test_a_transaction_that_its_coordinator_can_end_is_not_aborted_on_one_partition(cluster: Cluster) -> None:
    path = "/abort?topic=orders&partition=0&start=13"
    async with console(cluster.bootstrap) as client:
        assert "is that of till-2" in text_of((await client.get(path)).text)
        refused = await client.post(path, headers=OURS)
    assert refused.status_code == 404 and "fence it" in refused.text
    with Admin(cluster.bootstrap) as admin:
        assert admin.list_transactions()["till-2"] == "Ongoing"


async def test_fencing_an_id_that_no_producer_has_makes_none(cluster: Cluster) -> None:
    async with console(cluster.bootstrap) as client:
        assert (await client.post("/fence?id=nobody", headers=OURS)).status_code == 404
    with Admin(cluster.bootstrap) as admin:
        assert "nobody" not in admin.list_transactions()


async def test_a_hanging_transaction_is_aborted_on_its_partition(start_daemon: Start) -> None:
    daemon = start_daemon("oncelog.flush.policy=os")
    start = hang(daemon, "stuck")
    path = f"/abort?topic=stuck&partition=0&start={start}"
    async with console(daemon.bootstrap) as client:
        page = (await client.get("/partition?topic=stuck&partition=0")).text
        assert "no transactional id hangs" in text_of(page) and f"start={start}" in unescape(page)
        assert "none will end it" in text_of((await client.get(path)).text)
        done = await client.post(path, headers=OURS)
        assert done.status_code == 303
        after = text_of((await client.get(done.headers["location"])).text)
    assert "No transaction is open on this partition" in after


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/nothing", 404, "This console has no page at this address"),
        ("GET", "/topic/orders", 404, "This console has no page at this address"),
        ("GET", "/static/nothing.js", 404, "This console has no page at this address"),
        ("GET", "/end", 405, "is asked by the buttons of other pages"),
    ],
)
async def test_an_address_without_a_page_has_the_frame_and_a_way_back(
    cluster: Cluster, method: str, path: str, status: int, said: str
) -> None:
    """Title, language, navigation, and a link to the overview."""
    async with console(cluster.bootstrap) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert all(each in answer.text for each in ('<html lang="en">', "<title>", 'aria-label="Pages"', said))
    assert '<a href="/">To the overview</a>' in answer.text


async def test_a_mistake_of_the_console_has_the_frame_and_says_nothing_of_the_inside(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> list[str]:
        raise RuntimeError("inside")

    monkeypatch.setattr(Reader, "topic_names", broken)
    app = create_app(Reader(cluster.bootstrap, TIMEOUT_MS))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/topics")
    assert answer.status_code == 500 and "inside" not in answer.text
    assert '<html lang="en">' in answer.text and '<a href="/">To the overview</a>' in answer.text
    assert all(answer.headers[name] == value for name, value in HEADERS.items())
