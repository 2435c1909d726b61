"""kcat (Debian's), unmodified, against the daemon."""

import json
import shutil
import signal
import subprocess

import pytest

from tests.conftest import Start
from tests.support.foreign.confluent import new_topic, read_all
from tests.support.foreign.interop import run, unique
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop


def kcat(daemon: Daemon, *arguments: str, feed: str = "", code: int = 0) -> str:
    return run([program(), "-b", daemon.bootstrap, *arguments], feed, code)


def program() -> str:
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("needs kcat, which `make interop` installs where it may")
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_it_writes_it_reads_back_in_order(daemon: Daemon, codec: str) -> None:
    topic = new_topic(daemon)
    lines = [f"the same text again and again {number}" for number in range(2000)]
    kcat(daemon, "-P", "-t", topic, "-z", codec, feed="\n".join(lines))
    assert kcat(daemon, "-C", "-t", topic, "-e", "-q").splitlines() == lines


def test_keys_headers_offsets_and_timestamps_are_kept(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    kcat(daemon, "-P", "-t", topic, "-K:", "-H", "colour=blue", "-p", "0", feed="a:1\nb:2\n")
    printed = kcat(daemon, "-C", "-t", topic, "-e", "-q", "-J").splitlines()
    records = [json.loads(line) for line in printed]
    assert [(record["offset"], record["key"], record["payload"]) for record in records] == [
        (0, "a", "1"),
        (1, "b", "2"),
    ]
    assert all(record["headers"] == ["colour", "blue"] for record in records)
    assert all(record["ts"] > 0 and record["tstype"] == "create" for record in records)


def test_it_reads_from_the_end_backwards_and_from_a_time(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    kcat(daemon, "-P", "-t", topic, feed="\n".join(map(str, range(10))))
    assert kcat(daemon, "-C", "-t", topic, "-o", "-3", "-e", "-q").split() == ["7", "8", "9"]
    assert kcat(daemon, "-C", "-t", topic, "-o", "4", "-c", "2", "-q").split() == ["4", "5"]
    assert kcat(daemon, "-C", "-t", topic, "-o", "s@1", "-e", "-q").split() == list(map(str, range(10)))
    assert kcat(daemon, "-Q", "-t", f"{topic}:0:-1") == f"{topic} [0] offset 10\n"
    assert kcat(daemon, "-Q", "-t", f"{topic}:0:1") == f"{topic} [0] offset 0\n"


def test_it_lists_brokers_topics_and_partitions(daemon: Daemon) -> None:
    topic = new_topic(daemon, partitions=3)
    listed = json.loads(kcat(daemon, "-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [daemon.bootstrap]
    found = next(each for each in listed["topics"] if each["topic"] == topic)
    assert [partition["partition"] for partition in found["partitions"]] == [0, 1, 2]
    assert all(partition["leader"] == listed["controllerid"] for partition in found["partitions"])


def test_idempotence_keeps_order(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    lines = [str(number) for number in range(5000)]
    kcat(
        daemon, "-P", "-t", topic, "-X", "enable.idempotence=true", "-X", "batch.num.messages=50", feed="\n".join(lines)
    )
    assert [value.decode() for value in read_all(daemon, topic)] == lines


def test_a_transaction_is_seen_when_it_is_committed(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    kcat(daemon, "-P", "-t", topic, "-X", f"transactional.id={unique('t')}", feed="one\ntwo\n")
    read = ("-C", "-t", topic, "-e", "-q", "-X", "isolation.level=read_committed")
    assert kcat(daemon, *read).split() == ["one", "two"]


def test_what_a_killed_transaction_wrote_is_never_seen(daemon: Daemon) -> None:
    topic, transactional_id = new_topic(daemon), unique("t")
    command = [program(), "-b", daemon.bootstrap, "-P", "-t", topic, "-X", f"transactional.id={transactional_id}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write("lost\n" * 20_000)  # it sends once it has read a block
        process.stdin.flush()
        # It shows up for those who read everything: it is on the broker when the producer dies.
        reader = kcat(daemon, "-C", "-t", topic, "-c", "1", "-q", "-X", "isolation.level=read_uncommitted")
        assert reader.split() == ["lost"]
        process.send_signal(signal.SIGKILL)
    kcat(daemon, "-P", "-t", topic, "-X", f"transactional.id={transactional_id}", feed="kept\n")
    assert read_all(daemon, topic) == [b"kept"]
    assert set(read_all(daemon, topic, "read_uncommitted")) == {b"lost", b"kept"}


def test_a_group_reads_all_and_continues_where_it_committed(daemon: Daemon) -> None:
    topic, group = new_topic(daemon, partitions=2), unique("group")
    read = ("-G", group, "-e", "-q", "-X", "auto.offset.reset=earliest", topic)
    kcat(daemon, "-P", "-t", topic, feed="a\nb\nc\n")
    assert sorted(kcat(daemon, *read).split()) == ["a", "b", "c"]
    kcat(daemon, "-P", "-t", topic, feed="d\n")
    assert kcat(daemon, *read).split() == ["d"]


def test_it_continues_when_the_broker_is_killed(start_daemon: Start) -> None:
    daemon = start_daemon()
    topic = new_topic(daemon)
    lines = [str(number) for number in range(40_000)]
    command = [program(), "-b", daemon.bootstrap, "-P", "-E", "-t", topic, "-X", "enable.idempotence=true"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None
        for start in range(0, 40_000, 10_000):
            process.stdin.write("\n".join(lines[start : start + 10_000]) + "\n")
            process.stdin.flush()
            # The daemon dies while some of it is on its way.
            daemon.kill()
            daemon.start()
        process.stdin.close()
        assert process.wait(60) == 0
    assert [value.decode() for value in read_all(daemon, topic)] == lines
