"""`oncelog adopt`, with what Apache Kafka 4.3 itself has left: a clean stop, a kill, and a way there and back.

One Kafka lives, stops and is killed; another one has graduated from ours.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog import sync
from oncelog.cli import main
from oncelog.client import Admin, PreparedTxnState
from oncelog.client.admin.descriptions import TransactionDescription
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from tests.clients.share_requests import SETTINGS as SHARE_SETTINGS
from tests.clients.wire import WireBroker
from tests.support.kafka.directories import fingerprint
from tests.support.kafka.server import Kafka, free_ports, java_with_kafka
from tests.support.logs.graduation import (
    GROUPS,
    JOBS,
    LEFT,
    ORDERS,
    OVERRIDES,
    PREPARED,
    TWO_PHASE,
    WITH_RIGHTS,
    Seen,
    commit,
    committed_values,
    done,
    jobs_left,
    leave_open,
    make_past,
    observe,
    prepare,
    read,
    until_groups_are_loaded,
    wish_for,
)
from tests.support.patience import run
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.kafka

STOPS = ("clean stop", "kill -9")
WRITABLE = "oncelog.read.only=false"


async def describe(bootstrap: str) -> dict[str, TransactionDescription]:
    async with Admin(bootstrap) as admin:
        return {name: await admin.describe_transaction(name) for name in ("payer", "mover", "leaver")}


def adopt(kafka_dir: Path, data_dir: Path) -> None:
    before = fingerprint(kafka_dir)
    result = CliRunner().invoke(main, ["adopt", str(kafka_dir), "--out", str(data_dir)])
    assert result.exit_code == 0, result.output
    assert fingerprint(kafka_dir) == before


@contextmanager
def served(data_dir: Path, bootstrap: str, *overrides: str) -> Iterator[Daemon]:
    """Serve a directory on the address that Kafka had."""
    daemon = Daemon(data_dir, *OVERRIDES, f"listeners=PLAINTEXT://{bootstrap}", *overrides)
    try:
        yield daemon
    finally:
        daemon.stop()


@dataclass(frozen=True, slots=True)
class Lived:
    """A Kafka with a past, and what it showed before each stop."""

    bootstrap: str
    seen: dict[str, Seen]
    transactions: dict[str, dict[str, TransactionDescription]]
    prepared: PreparedTxnState
    held: sync.Producer
    """An idempotent producer that has sent to `large` before the clean stop."""
    held_offset: int
    directory: Path
    """The directory below which each stop's adopted data has a name."""


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    java_with_kafka()
    directory = tmp_path_factory.mktemp("lived")
    kafka = Kafka(directory, overrides=(*TWO_PHASE, *WITH_RIGHTS, *SHARE_SETTINGS))
    seen, transactions = {}, {}
    try:
        run(make_past(kafka.bootstrap))
        prepared = run(prepare(kafka.bootstrap))
        held = sync.Producer(kafka.bootstrap).__enter__()
        held_offset = held.send("large", b"held").offset
        for stop, end in zip(STOPS, (kafka.end, kafka.stop), strict=True):
            run(leave_open(kafka.bootstrap))
            seen[stop] = run(observe(kafka.bootstrap))
            transactions[stop] = run(describe(kafka.bootstrap))
            end()
            adopt(directory / "data", directory / stop)
            if stop != STOPS[-1]:
                kafka.start()
                run(until_groups_are_loaded(kafka.bootstrap, len(seen[stop].groups)))
    finally:
        kafka.stop()
    yield Lived(kafka.bootstrap, seen, transactions, prepared, held, held_offset, directory)
    held.close()


@pytest.mark.parametrize("stop", STOPS)
def test_a_read_only_broker_shows_what_kafka_showed_before_it_ended(lived: Lived, stop: str) -> None:
    before = fingerprint(lived.directory / stop)
    with served(lived.directory / stop, lived.bootstrap):
        assert run(observe(lived.bootstrap)) == lived.seen[stop]
        assert run(describe(lived.bootstrap)) == lived.transactions[stop]
    assert fingerprint(lived.directory / stop) == before
    assert lived.seen[stop].groups == GROUPS
    assert lived.transactions[stop]["mover"].state == lived.transactions[stop]["leaver"].state == "Ongoing"


def test_producers_and_transactions_continue_where_kafka_ended(lived: Lived) -> None:
    with served(lived.directory / "clean stop", lived.bootstrap, WRITABLE):
        assert lived.held.resend_last_batch("large", 0).offset == lived.held_offset
        assert lived.held.send("large", b"next").offset == lived.held_offset + 1
        run(commit(lived.bootstrap, b"here"))
        wire = WireBroker(lived.bootstrap)
        prepared = lived.prepared
        end = EndTxnRequest("mover", prepared.producer_id, prepared.producer_epoch, committed=True)
        assert wire.ask(end, 4).error_code == 0
        wire.close()
        while (found := run(describe(lived.bootstrap)))["leaver"].state != "CompleteAbort":
            pass  # ask again
        old = lived.transactions["clean stop"]["payer"]
        assert (found["payer"].producer_id, found["mover"].state) == (old.producer_id, "CompleteCommit")
        assert found["payer"].producer_epoch > old.producer_epoch
        assert run(committed_values(lived.bootstrap))[-1] == b"here"
        assert run(read(lived.bootstrap, [PREPARED], "read_committed"))[PREPARED][-1][-1] == b"prepared"


@pytest.mark.parametrize("stop", STOPS)
def test_a_share_group_delivers_the_records_that_were_not_acknowledged_to_kafka(lived: Lived, stop: str) -> None:
    assert lived.seen[stop].offsets["workers"][JOBS].start_offset == LEFT[0]
    with served(lived.directory / stop, lived.bootstrap, WRITABLE):
        assert run(jobs_left(lived.bootstrap)) == dict.fromkeys(LEFT, 2)


def test_what_graduated_and_lived_on_in_kafka_comes_back(tmp_path: Path) -> None:
    java_with_kafka()
    daemon = Daemon(tmp_path / "data", *OVERRIDES)
    bootstrap = daemon.bootstrap
    try:
        run(make_past(bootstrap))
        first = run(observe(bootstrap))
    finally:
        daemon.stop()
    settings = done(wish_for(tmp_path / "data", tmp_path / "kafka", bootstrap, free_ports(1)[0]))
    kafka = Kafka(tmp_path, formatted=(settings, int(bootstrap.rpartition(":")[2])))
    try:
        run(commit(bootstrap, b"on Kafka"))
        run(until_groups_are_loaded(bootstrap, len(first.groups)))
        assert run(jobs_left(bootstrap)) == dict.fromkeys(LEFT, 2)
        before = run(observe(bootstrap))
        kafka.end()
    finally:
        kafka.stop()
    adopt(tmp_path / "kafka", tmp_path / "back")
    with served(tmp_path / "back", bootstrap, WRITABLE):
        assert run(observe(bootstrap)) == before
        run(commit(bootstrap, b"back"))
        values = run(committed_values(bootstrap))
    assert values[:-2] == [value for *_, value in first.committed[ORDERS]]
    assert values[-2:] == [b"on Kafka", b"back"]
