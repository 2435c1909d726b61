"""One partition whose files are damaged is shown as what it is, and the others of its topic beside it."""

import asyncio
import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client.admin.descriptions import NewTopic
from oncelog.client.blocking.clients import Admin, Producer
from tests.support.console.consoles import console, text_of
from tests.support.processes.daemon import Daemon


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A topic orders of three partitions with a record each; the one in partition 1 is damaged."""
    directory: Path = tmp_path_factory.mktemp("damaged") / "data"
    daemon = Daemon(directory, "oncelog.metrics.listen=127.0.0.1:0", "group.initial.rebalance.delay.ms=0")
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
        admin.create_topics(NewTopic("orders", 3))
        for partition in range(3):
            producer.send("orders", b"one", partition=partition)
    assert daemon.stop() == 0
    file = directory / "orders-1" / "00000000000000000000.log"
    written = bytearray(file.read_bytes())
    written[-1] ^= 1
    file.write_bytes(written)
    daemon.start()
    with Admin(daemon.bootstrap) as admin:
        while admin.describe_topics("orders")[0].leaders[1] >= 0:  # by the check in the background
            pass
    yield daemon
    daemon.stop()


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, words)
    return result.exit_code, result.output


def test_describing_the_topic_shows_which_partition_has_no_leader(damaged: Daemon) -> None:
    exit_code, said = run("topic", "describe", "orders", "--json", "--bootstrap", damaged.bootstrap)
    assert exit_code == 0, said
    rows = [(row["leader"], row["in_sync"], row["start_offset"], row["end_offset"]) for row in json.loads(said)]
    assert rows == [(1, [1], 0, 1), (-1, [], None, None), (1, [1], 0, 1)]
    for words in (("describe", "orders"), ("list",)):
        exit_code, said = run("topic", *words, "--bootstrap", damaged.bootstrap)
        assert (exit_code, "Without a leader: orders-1; `oncelog doctor`" in said) == (0, True), said


def test_doctor_says_that_its_files_are_what_is_wrong(damaged: Daemon) -> None:
    exit_code, said = run("doctor", "--json", "--bootstrap", damaged.bootstrap)
    found = {row["check"]: (row["result"], row["detail"]) for row in json.loads(said)}
    assert exit_code == 1
    assert found["leaders"][0] == "wrong" and "orders-1" in found["leaders"][1] and "log verify" in found["leaders"][1]
    assert {check: result for check, (result, _) in found.items() if result == "wrong"} == {"leaders": "wrong"}


def test_console_shows_the_others_and_says_that_it_has_no_leader(damaged: Daemon) -> None:
    async def pages(*paths: str) -> list[tuple[int, str]]:
        async with console(damaged.bootstrap) as client:
            found = [await client.get(path) for path in paths]
            return [(page.status_code, text_of(page.text)) for page in found]

    paths = ("/", "/topics", "/topic?topic=orders", "/messages?topic=orders&partition=0", "/groups", "/transactions")
    shown = dict(zip(paths, asyncio.run(pages(*paths)), strict=True))
    assert {path: status for path, (status, _) in shown.items()} == dict.fromkeys(paths, 200)
    assert "orders 1 partition without a leader" in shown["/topics"][1]
    assert "orders -1 no leader" in shown["/topic?topic=orders"][1]


def test_metrics_count_it(damaged: Daemon) -> None:
    with urllib.request.urlopen(f"http://{damaged.address_of('metrics')}/metrics") as response:
        assert re.search(rb"^oncelog_offline_partitions\S* 1(\.0)?$", response.read(), re.MULTILINE)


def test_group_that_reads_the_topic_is_shown_with_its_other_partitions(damaged: Daemon) -> None:
    reset = ("group", "reset", "readers", "--topic", "orders:0", "--to", "0", "--create")
    assert run(*reset, "--bootstrap", damaged.bootstrap)[0] == 0
    exit_code, said = run("group", "lag", "readers", "--bootstrap", damaged.bootstrap)
    assert exit_code == 0, said
