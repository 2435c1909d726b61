"""`oncelog backup` of a broker that runs, and `oncelog restore`: what librdkafka reads in what comes back."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.cli import main
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES, Daemon

pytestmark = LOOKS_AT_FILES
PARTITIONS = (0, 1)
WRITERS = 3
BACKUPS = 2


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], env={"ONCELOG_CONFIG": os.devnull})


def back_up(daemon: Daemon, target: Path) -> Result:
    return run("backup", target, "--data-dir", daemon.data_dir)


def restore(source: Path, target: Path) -> Result:
    return run("restore", source, "--data-dir", target)


# --- under load -------------------------------------------------------------------------------------------------------


class Ledger:
    """Transactions that write the same number to both partitions, of which each is either there twice or not at all."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.is_over = threading.Event()
        self.acknowledged: list[set[str]] = [set() for _ in range(WRITERS)]
        self.has_committed = threading.Condition()

    def write(self, number: int) -> None:
        producer, count = None, 0
        while not self.is_over.is_set():
            producer = producer or transactional(self.bootstrap, number)
            name, count = f"{number}:{count}", count + 1
            try:
                producer.begin_transaction()
                for partition in PARTITIONS:
                    producer.produce("ledger", padded(name), partition=partition)
                producer.commit_transaction(PATIENCE_S)
            except KafkaException:
                producer = None  # the next one fences it: whether this was committed, the log says
                continue
            with self.has_committed:
                self.acknowledged[number].add(padded(name))
                self.has_committed.notify_all()

    def await_commits(self, more: int) -> None:
        with self.has_committed:
            wanted = self.count + more
            assert self.has_committed.wait_for(lambda: self.count >= wanted, PATIENCE_S)

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged))

    def acknowledged_now(self) -> set[str]:
        with self.has_committed:
            return set().union(*self.acknowledged)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.write, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.is_over.set()
            for thread in threads:
                thread.join()


def padded(name: str) -> str:
    """Pad a value so that a segment holds some fifty."""
    return name.ljust(20_000)


def transactional(bootstrap: str, number: int) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"ledger-{number}", "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    return producer


def committed(bootstrap: str) -> dict[int, list[str]]:
    """Return what a read_committed reader gets of each partition, once open transactions are aborted."""
    for number in range(WRITERS):
        transactional(bootstrap, number)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    found: dict[int, list[str]] = {partition: [] for partition in PARTITIONS}
    consumer.assign([TopicPartition("ledger", partition, 0) for partition in PARTITIONS])
    at_end: set[int | None] = set()
    while len(at_end) < len(PARTITIONS):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error():
            at_end.add(message.partition())
        else:
            found[message.partition() or 0].append((message.value() or b"").decode())
    consumer.close()
    return found


def create(bootstrap: str, topic: str, config: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, len(PARTITIONS), 1, config=dict(config))]).values():
        future.result(PATIENCE_S)


def test_backups_under_load_and_kills_hold_all_that_was_acknowledged_before_and_nothing_half(
    start_daemon: Start, tmp_path: Path
) -> None:
    """Three transactional producers write to two partitions while backups are made and the broker is killed: each
    backup comes back with every transaction that was acknowledged before it began, none of them in one partition only,
    none twice."""
    daemon = start_daemon()
    create(daemon.bootstrap, "ledger", {"segment.bytes": str(2**20)})
    ledger, before = Ledger(daemon.bootstrap), []
    with ledger.at_work():
        for number in range(BACKUPS):
            ledger.await_commits(10)
            before.append(ledger.acknowledged_now())
            made = back_up(daemon, tmp_path / f"backup-{number}")
            assert made.exit_code == 0, made.stderr
            daemon.kill()
            daemon.start()
    assert not (daemon.data_dir / ".backup").exists()
    for number, acknowledged in enumerate(before):
        data_dir = tmp_path / f"restored-{number}"
        assert restore(tmp_path / f"backup-{number}", data_dir).exit_code == 0
        found = committed(start_daemon(name=data_dir.name).bootstrap)
        assert set(found[0]) == set(found[1])
        assert acknowledged <= set(found[0])
        assert max(Counter(found[0] + found[1]).values()) == len(PARTITIONS)


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def backed_up(start_daemon: Start, tmp_path: Path) -> tuple[Daemon, Path]:
    """A broker with three records, and its backup."""
    daemon = start_daemon()
    create(daemon.bootstrap, "orders", {})
    produce(daemon.bootstrap, "one", "two", "three")
    assert back_up(daemon, tmp_path / "backup").exit_code == 0
    return daemon, tmp_path / "backup"


def produce(bootstrap: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce("orders", value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def consumed(bootstrap: str) -> list[str]:
    return run("record", "consume", "orders", "--exit", "-b", bootstrap).stdout.split()


def test_a_restored_broker_has_the_past_and_says_so(backed_up: tuple[Daemon, Path], start_daemon: Start) -> None:
    """Records written after the backup are gone, the start warns once, and no producer id is given out a second
    time.
    """
    daemon, backup = backed_up
    produce(daemon.bootstrap, "four")
    assert consumed(daemon.bootstrap) == ["one", "two", "three", "four"]
    data_dir = daemon.data_dir.with_name("restored")
    made = run("restore", backup, "--data-dir", data_dir, "--json")
    assert made.exit_code == 0
    assert json.loads(made.stdout)["partitions"] == 1
    restored = start_daemon(name="restored")
    assert consumed(restored.bootstrap) == ["one", "two", "three"]
    assert len(restored.events("directory.restored")) == 1
    restored.stop()
    restored.start()
    assert len(restored.events("directory.restored")) == 1


def test_a_backup_that_has_changed_is_not_restored(backed_up: tuple[Daemon, Path], tmp_path: Path) -> None:
    """Each byte counts, and so does each file; the directory that was begun cannot be served, and a second try may fill
    it."""
    _, backup = backed_up
    log = backup / "orders-0" / f"{0:020d}.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    changed = restore(backup, tmp_path / "new")
    assert (changed.exit_code, changed.stderr.count("has changed since the backup")) == (1, 1)
    with pytest.raises(RuntimeError, match="has not filled it to the end"):
        Daemon(tmp_path / "new")
    log.unlink()
    assert restore(backup, tmp_path / "other").exit_code == 1
    log.write_bytes(whole)
    assert restore(backup, tmp_path / "new").exit_code == 0


def test_what_is_there_stays_as_it_is(backed_up: tuple[Daemon, Path], tmp_path: Path) -> None:
    """Neither command writes into a directory that holds anything, and no broker into a backup."""
    daemon, backup = backed_up
    again = back_up(daemon, backup)
    assert (again.exit_code, again.stderr.count("is not empty")) == (2, 1)
    assert restore(backup, daemon.data_dir).exit_code == 2
    assert restore(daemon.data_dir, tmp_path / "new").exit_code == 2
    with pytest.raises(RuntimeError, match="is a backup"):
        Daemon(backup)
    assert run("log", "verify", backup).exit_code == 0
    looking = Daemon(backup, "oncelog.read.only=true")
    assert consumed(looking.bootstrap) == ["one", "two", "three"]
    looking.stop()
    assert restore(backup, tmp_path / "new").exit_code == 0


def test_a_stopped_broker_is_backed_up_too(backed_up: tuple[Daemon, Path], tmp_path: Path) -> None:
    """After a clean stop, and after a kill with all that only the journal has."""
    daemon, _ = backed_up
    daemon.stop()
    clean = run("backup", tmp_path / "clean", "--data-dir", daemon.data_dir, "--json")
    assert json.loads(clean.stdout)["broker_was_running"] is False
    daemon.start()
    produce(daemon.bootstrap, "four")
    daemon.kill()
    assert back_up(daemon, tmp_path / "killed").exit_code == 0
    for name, values in (("clean", ["one", "two", "three"]), ("killed", ["one", "two", "three", "four"])):
        assert restore(tmp_path / name, tmp_path / f"{name}-restored").exit_code == 0
        restored = Daemon(tmp_path / f"{name}-restored")
        assert consumed(restored.bootstrap) == values
        restored.stop()


def test_a_killed_backup_holds_nothing_and_a_second_one_does_not_wait(
    backed_up: tuple[Daemon, Path], tmp_path: Path
) -> None:
    """An image that was left is replaced by the next backup and forgotten by a start; two at once are refused."""
    daemon, _ = backed_up
    (daemon.data_dir / ".backup").mkdir()
    (daemon.data_dir / ".backup" / "left").touch()
    with (daemon.data_dir / ".backup.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another backup" in back_up(daemon, tmp_path / "second").stderr
    assert back_up(daemon, tmp_path / "second").exit_code == 0
    assert not (daemon.data_dir / ".backup").exists()
    (daemon.data_dir / ".backup").mkdir()
    (daemon.data_dir / ".backup-wanted").touch()
    daemon.kill()
    (daemon.data_dir / ".backup-wanted").touch()
    daemon.start()
    assert not {".backup", ".backup-wanted"} & set(os.listdir(daemon.data_dir))


def test_a_backup_that_is_interrupted_leaves_nothing(backed_up: tuple[Daemon, Path], tmp_path: Path) -> None:
    """A backup that gets SIGTERM while the broker does not respond withdraws its request and leaves no directory."""
    daemon, _ = backed_up
    daemon.process.send_signal(signal.SIGSTOP)
    command = [sys.executable, "-m", "oncelog", "backup", tmp_path / "cut", "--data-dir", daemon.data_dir]
    try:
        with subprocess.Popen(command) as waiting:
            pause = threading.Event()
            while not (daemon.data_dir / ".backup-wanted").exists():
                pause.wait(0.02)
            waiting.terminate()
            assert waiting.wait(PATIENCE_S) == 130
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert not (daemon.data_dir / ".backup-wanted").exists()
    assert not list(tmp_path.glob("cut*"))
    assert back_up(daemon, tmp_path / "cut").exit_code == 0


def test_records_in_postgresql_are_backed_up_by_its_own_means(tmp_path: Path) -> None:
    """The command says which, in one line."""
    said = run("backup", tmp_path / "backup", "--data-dir", "postgresql://kafka@db/kafka")
    assert (said.exit_code, said.stderr.count("pg_dump"), said.stderr.count("\n")) == (2, 1, 1)
