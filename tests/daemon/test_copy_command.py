"""`oncelog copy` as a process: killed and started again, and the hold of a switch-over as a client sees it."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oncelog.client import Admin, TopicPartition
from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.sync import Admin as SyncAdmin
from oncelog.sync import Producer
from oncelog.testing import Broker
from tests.support.logs.copies import contents, fill, placed
from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent.parent


@contextmanager
def copying(source: Broker, target: Broker, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The command, with --json; killed in the end if it still runs."""
    command = [sys.executable, "-m", "oncelog", "copy", source.bootstrap_servers, target.bootstrap_servers, "--json"]
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, *options], cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: "subprocess.Popen[str]", event: str) -> dict[str, Any]:
    """The next event of this name."""
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"no {event}: {process.stderr.read() if process.stderr else ''}")


@pytest.fixture
def pair() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as source, Broker() as target:
        asyncio.run(fill(source.bootstrap_servers, Random(11), transaction_count=4))
        yield source, target


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "rule",
    [
        Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.PRODUCE), nth=3),
        Rule(Point.ANSWER, Action.HOLD, Selector(api=ApiKey.PRODUCE), nth=5),
        Rule(Point.ANSWER, Action.HOLD, Selector(api=ApiKey.CREATE_TOPICS)),
        Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN), nth=2),
        Rule(Point.ANSWER, Action.HOLD, Selector(api=ApiKey.END_TXN), nth=2),
        Rule(Point.MARKER, Action.HOLD, Selector(topic="mixed"), times=None),
    ],
    ids=lambda rule: f"{rule.point.value} {rule.of.api.name if rule.of.api is not None else ''}",
)
def test_a_copy_that_is_killed_continues_where_it_was(pair: tuple[Broker, Broker], rule: Rule) -> None:
    """A kill at any step of a transaction is survived; a late request arrives when the next copy runs."""
    source, target = pair
    number = target.faults.plant(rule)
    with copying(source, target, "--once") as process:
        target.faults.wait_fired(number)
        process.kill()
    target.faults.remove(number)
    with copying(source, target, "--once") as process:
        until(process, "done")
        assert process.wait(PATIENCE_S) == 0
    assert asyncio.run(contents(target.bootstrap_servers)) == asyncio.run(contents(source.bootstrap_servers))


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "rule",
    [
        Rule(Point.APPEND, Action.NO_ROOM, Selector(topic="mixed"), nth=2, times=None),
        Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.PRODUCE), nth=3, times=None),
        Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN), nth=2, times=None),
        Rule(Point.REQUEST, Action.HOLD, Selector(), nth=20, times=None),
        Rule(Point.ANSWER, Action.HOLD, Selector(api=ApiKey.END_TXN), nth=2, times=None),
    ],
    ids=lambda rule: f"{rule.point.value} {rule.of.api.name if rule.of.api is not None else ''}",
)
def test_a_copy_that_gave_up_continues_where_it_was(pair: tuple[Broker, Broker], rule: Rule) -> None:
    """Wherever the target refuses or is silent for longer than --timeout."""
    source, target = pair
    number = target.faults.plant(rule)
    with copying(source, target, "--once", "--timeout", "2") as process:
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 2, said
        assert said.strip()
    target.faults.remove(number)
    with copying(source, target, "--once") as process:
        until(process, "done")
        assert process.wait(PATIENCE_S) == 0
    assert asyncio.run(contents(target.bootstrap_servers)) == asyncio.run(contents(source.bootstrap_servers))


@pytest.mark.parametrize("options", [("--once",), ("--switch",), ("--once", "--dry-run")], ids=" ".join)
def test_a_copy_that_ends_fails_if_a_pattern_matches_no_topic(
    pair: tuple[Broker, Broker], options: tuple[str, ...]
) -> None:
    with copying(*pair, "--topics", "mixed", "--topics", "nope", *options) as process:
        _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "--topics: 'nope' matches no topic's name as a whole" in said) == (2, True)
    with SyncAdmin(pair[1].bootstrap_servers) as admin:
        assert admin.list_topics() == []


def test_ctrl_c_ends_a_switch_over_that_waits_for_its_line(pair: tuple[Broker, Broker]) -> None:
    with copying(*pair, "--switch") as process:
        until(process, "ready")
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE_S)
        assert process.stderr is not None
        assert (code, process.stderr.read()) == (130, "")


def test_a_switch_over_reports_no_more_than_what_its_clients_are_held_for(pair: tuple[Broker, Broker]) -> None:
    """The pause is from the last record that a producer wrote to the source to the first that it wrote to the target,
    less than a second (bench/copying.py measures it).
    """
    source, target = pair
    place = TopicPartition("mixed", 2)
    with copying(source, target, "--switch") as process:
        until(process, "ready")
        with Producer(source.bootstrap_servers) as producer:
            for number in range(300):
                offset = producer.send("mixed", b"live %d" % number, partition=2).offset
            stopped_s = time.monotonic()
        commit(source, place, offset - 4)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        done = until(process, "done")
        with Producer(target.bootstrap_servers) as producer:
            producer.send("mixed", b"after", partition=2)
        hold_s = time.monotonic() - stopped_s
    assert 0 < done["hold_seconds"] <= hold_s
    there = asyncio.run(placed(target.bootstrap_servers))
    before = asyncio.run(contents(source.bootstrap_servers))
    assert [each for _, each in there[place]][:-1] == before[place]
    readers_at = target.committed("readers")[place]
    left = [value for at, (_, _, value, _) in there[place] if at >= readers_at]
    assert left == [b"live 295", b"live 296", b"live 297", b"live 298", b"live 299", b"after"]


def commit(broker: Broker, place: TopicPartition, offset: int) -> None:
    async def call() -> None:
        async with Admin(broker.bootstrap_servers) as admin:
            await admin.alter_group_offsets("readers", {place: offset})

    asyncio.run(call())


def test_each_side_is_reached_with_its_own_file_of_settings(tmp_path: Path) -> None:
    """A source that asks for a login, a target that does not."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "listeners": "SASL_PLAINTEXT://localhost:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{module}\n  user_alice="secret";',
    }
    client = f'{module} username="alice" password="secret";'
    file = tmp_path / "source.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={client}\n")
    with Broker(config=settings) as source, Broker() as target:
        options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": client}
        with Producer(source.bootstrap_servers, **options) as producer:  # type: ignore[arg-type]
            producer.send("orders", b"1")
        with copying(source, target, "--once", "--source-config", str(file)) as process:
            assert until(process, "done")["records"] == 1
        assert [each.value for each in target.records("orders")] == [b"1"]


def test_a_dry_run_shows_a_table_and_what_is_in_the_way_and_fails(pair: tuple[Broker, Broker]) -> None:
    source, target = pair
    target.produce("empty", b"foreign")
    command = [sys.executable, "-m", "oncelog", "copy", source.bootstrap_servers, target.bootstrap_servers, "--dry-run"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert shown.returncode == 2
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["topic", "partitions", "offsets", "settings", "what"]
    assert lines[1].split() == ["cut", "1", "13", "0", "is", "created", "and", "copied"]
    assert "empty has 2 partitions, on the target 1: delete it there, or --exclude it" in lines[2]
    assert shown.stderr.startswith("oncelog: empty has 2 partitions")
    assert target.topics() == ["empty"]
