"""`oncelog.admin.listen` of a real daemon: what can be seen and done over HTTP, and who may."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from oncelog.faults import Action, ApiKey, ErrorCode, FaultClient, FaultsRefused, Point, Rule, Selector
from tests.conftest import Start
from tests.support.foreign.confluent import new_topic, read_all
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon
from tests.support.processes.faults import faults_of

ADMIN = "oncelog.admin.listen=127.0.0.1:0"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(tmp_path_factory.mktemp("admin") / "data", ADMIN)
    yield running
    running.stop()


@pytest.fixture
def faults(broker: Daemon) -> Iterator[FaultClient]:
    client = faults_of(broker)
    yield client
    client.remove_all()


def begun(daemon: Daemon, transactional_id: str, **settings: Any) -> Producer:
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": transactional_id, **settings})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    return producer


def ask(address: str, request: bytes) -> tuple[int, bytes]:
    """One request as bytes; status and body."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer and (data := connection.recv(65_536)):
            answer += data
        head, _, body = answer.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        while len(body) < length and not request.startswith(b"HEAD") and (data := connection.recv(65_536)):
            body += data
    return int(head.split()[1]), body


def test_a_commit_that_is_answered_shows_prepare_commit_until_its_markers_are_released(
    broker: Daemon, faults: FaultClient
) -> None:
    topic = new_topic(broker, partitions=2)
    producer = begun(broker, "stepped")
    held = faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(transactional_id="stepped"), times=None))
    for partition in range(2):
        producer.produce(topic, b"%d" % partition, partition=partition)
    producer.commit_transaction(PATIENCE_S)
    assert faults.state("stepped") == "PrepareCommit"
    assert faults.status(held).fired_count == 2
    since = faults.events()[-1]["number"]
    assert faults.release(held, 1) == 1
    released, written = islice(faults.follow(since), 2)
    assert (released["event"], written["event"], written["partition"]) == ("released", "marker", f"{topic}-0")
    (shown,) = [each for each in faults.transactions() if each["transactional_id"] == "stepped"]
    assert shown["partitions"] == [f"{topic}-0", f"{topic}-1"]
    assert shown["without_marker"] == [f"{topic}-1"]
    first, second = faults.partitions(topic)
    assert (first["open_transactions"], len(second["open_transactions"])) == ([], 1)
    assert (first["last_stable_offset"], second["last_stable_offset"]) == (2, 0)
    assert read_all(broker, topic, partitions=2) == [b"0"]
    assert faults.remove(held).held == []
    for event in faults.follow():
        if (
            event["event"] == "transition"
            and event["transactional_id"] == "stepped"
            and event["state"] == "CompleteCommit"
        ):
            break
    assert sorted(read_all(broker, topic, partitions=2)) == [b"0", b"1"]


def test_events_show_every_transition_and_every_fault_in_order(broker: Daemon, faults: FaultClient) -> None:
    topic = new_topic(broker)
    since = faults.events()[-1]["number"] if faults.events() else 0
    rule = Rule(
        Point.REQUEST, Action.ERROR, Selector(ApiKey.END_TXN, client_id="watched"), error=ErrorCode.NOT_COORDINATOR
    )
    number = faults.plant(rule)
    producer = begun(broker, "watched", **{"client.id": "watched"})
    producer.produce(topic, b"x")
    producer.commit_transaction(PATIENCE_S)
    seen = []
    for event in faults.follow(since):
        seen.append((event["event"], event.get("state") or event.get("action")))
        if event.get("state") == "CompleteCommit":
            break
    assert seen == [
        ("rule planted", "error"),
        ("transition", "Empty"),
        ("transition", "Ongoing"),
        ("fault", "error"),
        ("transition", "PrepareCommit"),
        ("marker", None),
        ("transition", "CompleteCommit"),
    ]
    assert faults.status(number).is_consumed
    assert [event["number"] for event in faults.events(since)] == list(
        range(since + 1, since + 1 + len(faults.events(since)))
    )


def test_a_duplicate_that_comes_late_is_refused_and_its_answer_can_be_read(broker: Daemon, faults: FaultClient) -> None:
    topic = new_topic(broker)
    number = faults.plant(Rule(Point.REQUEST, Action.DUPLICATE, Selector(ApiKey.PRODUCE, topic=topic)))
    producer = begun(broker, "late")
    producer.produce(topic, b"once")
    producer.commit_transaction(PATIENCE_S)
    assert faults.wait_fired(number).fired_count == 1
    assert faults.release(number) == 1
    assert read_all(broker, topic) == [b"once"]


def test_a_crash_is_a_kill(start_daemon: Start) -> None:
    daemon = start_daemon(ADMIN)
    faults_of(daemon).crash()
    assert daemon.process.wait(PATIENCE_S) == -9
    daemon.kill()
    daemon.start()


def test_a_clean_stop_does_not_wait_for_what_is_held_and_the_next_start_continues(start_daemon: Start) -> None:
    daemon = start_daemon(ADMIN)
    faults = faults_of(daemon)
    topic = new_topic(daemon)
    producer = begun(daemon, "held", **{"socket.timeout.ms": 60_000})
    faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(transactional_id="held"), times=None))
    producer.produce(topic, b"promised")
    producer.commit_transaction(PATIENCE_S)
    waiting = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(ApiKey.INIT_PRODUCER_ID)))
    rival = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "held"})
    with ThreadPoolExecutor() as pool:
        initialising = pool.submit(rival.init_transactions, 30)
        assert faults.wait_fired(waiting).fired_count == 1
        assert daemon.stop() == 0
        daemon.start()
        initialising.result(PATIENCE_S)
    assert read_all(daemon, topic) == [b"promised"]


def test_epochs_and_producer_ids_are_moved_on(broker: Daemon, faults: FaultClient) -> None:
    faults.skip_producer_ids_to(2**40)
    begun(broker, "moved").abort_transaction(PATIENCE_S)
    faults.move_epoch_on("moved", 32_765)
    begun(broker, "moved").abort_transaction(PATIENCE_S)
    (shown,) = [each for each in faults.transactions() if each["transactional_id"] == "moved"]
    assert (shown["producer_id"] >= 2**40, shown["producer_epoch"]) == (True, 32_766)
    with pytest.raises(FaultsRefused, match="TRANSACTIONAL_ID_NOT_FOUND"):
        faults.move_epoch_on("nobody", 7)
    with pytest.raises(FaultsRefused, match="INVALID_PRODUCER_EPOCH"):
        faults.move_epoch_on("moved", 7)


def test_background_work_continues_after_the_wall_clock_was_set_back_by_a_month(tmp_path: Path) -> None:
    """An id that was used after the jump is forgotten in time."""
    settings = (
        "transactional.id.expiration.ms=60000",
        "transaction.remove.expired.transaction.cleanup.interval.ms=1000",
    )
    daemon = Daemon(tmp_path / "data", ADMIN, *settings)
    try:
        faults = faults_of(daemon)
        begun(daemon, "before").abort_transaction(PATIENCE_S)
        faults.jump_wall_clock(-30 * 86_400_000)
        begun(daemon, "after").abort_transaction(PATIENCE_S)
        for _ in range(2):  # the first brings the time, the second the turn after it
            faults.advance_time(61_000)
        assert [each["transactional_id"] for each in faults.transactions()] == ["before"]
    finally:
        daemon.stop()


def test_time_that_is_moved_on_ends_what_has_lasted_too_long(broker: Daemon, faults: FaultClient) -> None:
    topic = new_topic(broker)
    producer = begun(broker, "slept")
    producer.produce(topic, b"x")
    assert producer.flush(PATIENCE_S) == 0
    since = faults.events()[-1]["number"]
    faults.jump_wall_clock(86_400_000)
    faults.jump_wall_clock(-86_400_000)
    assert faults.state("slept") == "Ongoing"
    faults.advance_time(60_001)
    states = []
    for event in faults.follow(since):
        states += [event["state"]] if event["event"] == "transition" else []
        if states[-1:] == ["CompleteAbort"]:
            break
    assert states == ["PrepareAbort", "CompleteAbort"]


def request(line: str, *headers: str, body: str = "") -> bytes:
    lines = [f"{line} HTTP/1.1", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


JSON = "Content-Type: application/json"
LOCAL = "Host: localhost:9644"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("GET /", LOCAL), 200),
        (request("GET /", "Host: 127.0.0.1"), 200),
        (request("GET /", "Host: [::1]:9644"), 200),
        (request("HEAD /", LOCAL), 405),
        (request("GET /", "Host: rebound.example:9644"), 403),
        (request("GET /", "Host: 127.0.0.1.rebound.example"), 403),
        (request("GET /", "Host: 192.0.2.1:9644"), 403),
        (request("GET /", "Host:"), 403),
        (request("GET /"), 400),
        (request("GET /", LOCAL, "Origin: http://localhost:9644"), 200),
        (request("POST /crash", LOCAL, JSON, "Origin: http://elsewhere.example"), 403),
        (request("POST /crash", LOCAL, "Content-Type: text/plain"), 415),
        (request("POST /crash", LOCAL), 415),
        (request("OPTIONS /faults", LOCAL, JSON), 405),
        (request("GET /nothing", LOCAL), 404),
        (request("GET /faults/1000000", LOCAL), 404),
        (request("GET /faults/x", LOCAL), 404),
        (request("PUT /faults", LOCAL, JSON), 405),
        (request("POST /faults", LOCAL, JSON, body="{"), 400),
        (request("POST /faults", LOCAL, JSON, body="[]"), 400),
        (request("POST /faults", LOCAL, JSON, body="[" * 60_000), 400),
        (request("POST /faults", LOCAL, JSON, body='{"point": "nowhere"}'), 400),
        (request("POST /time", LOCAL, JSON, body='{"advance_ms": -1}'), 400),
        (request("POST /time", LOCAL, JSON, body='{"advance_ms": 1e400}'), 400),
        (request("POST /producer-ids", LOCAL, JSON, body="{}"), 400),
        (request("POST /faults", LOCAL, JSON, body="x" * 70_000), 413),
        (request("GET /", LOCAL, "X: " + "x" * 40_000), 431),
        (request("GET http://[/ ", LOCAL), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ],
    ids=lambda value: value[:60].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_who_may_ask_and_what_is_refused(broker: Daemon, sent: bytes, status: int) -> None:
    found, body = ask(broker.address_of("admin"), sent)
    assert found == status, body
    assert status == 200 or not body or json.loads(body).keys() == {"error"}


def test_a_connection_that_asks_nothing_makes_way_for_a_new_one(broker: Daemon, faults: FaultClient) -> None:
    host, _, port = broker.address_of("admin").rpartition(":")
    waiting = [socket.create_connection((host, int(port)), 10) for _ in range(80)]
    try:
        for connection in waiting[:16]:
            assert connection.recv(1) == b""
        assert faults.partitions("nothing") == []
        assert read_all(broker, new_topic(broker)) == []
    finally:
        for connection in waiting:
            connection.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:9644", "192.0.2.1:9644", "example.org:9644", "9644", "127.0.0.1:x", "[::]:1"],
)
def test_an_address_that_others_could_reach_stops_the_start(tmp_path: Path, address: str) -> None:
    command = [sys.executable, "-P", "-m", "oncelog.broker", "serve", "--data-dir", str(tmp_path / "data")]
    command += ["--listen", "127.0.0.1:0", "--override", f"oncelog.admin.listen={address}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert answer.returncode != 0
    (line,) = answer.stderr.splitlines()
    assert "oncelog.admin.listen" in line
    assert not (tmp_path / "data").exists()


def test_no_port_is_open_and_nothing_is_imported_unless_it_is_asked_for(start_daemon: Start) -> None:
    daemon = start_daemon()
    assert daemon.events("admin.ready") == []
    unwanted = ("h11", "oncelog.broker.faults")
    code = f"import sys, oncelog.broker.daemon.app; print([name for name in {unwanted!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_rules_in_a_file_hold_what_a_start_would_finish(start_daemon: Start, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text("[]")
    daemon = start_daemon(ADMIN, f"oncelog.admin.faults={rules}")
    topic = new_topic(daemon)
    producer = begun(daemon, "found")
    producer.produce(topic, b"promised")
    hold = Rule(Point.MARKER, Action.HOLD, Selector(transactional_id="found"))
    faults_of(daemon).plant(hold)
    producer.commit_transaction(PATIENCE_S)
    daemon.kill()
    rules.write_text(json.dumps([hold.as_json()]))
    daemon.start()
    faults = faults_of(daemon)
    assert (faults.state("found"), read_all(daemon, topic)) == ("PrepareCommit", [])
    faults.remove_all()
    for event in faults.follow():
        if event.get("state") == "CompleteCommit":
            break
    assert read_all(daemon, topic) == [b"promised"]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("text", ['[{"point": "nowhere"}]', None, "{", "{}", "[7]"])
def test_rules_that_cannot_be_read_stop_the_start(tmp_path: Path, text: str | None) -> None:
    rules = tmp_path / "rules.json"
    if text is not None:
        rules.write_text(text)
    command = [
        sys.executable,
        "-P",
        "-m",
        "oncelog.broker",
        "serve",
        "--data-dir",
        str(tmp_path / "data"),
        "--override",
        ADMIN,
    ]
    command += ["--listen", "127.0.0.1:0", "--override", f"oncelog.admin.faults={rules}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert answer.returncode != 0
    (line,) = answer.stderr.splitlines()
    assert str(rules) in line
