"""How long transactions of librdkafka stall after a restart of their broker: this one, or Apache Kafka.

`python -m tests.support.foreign.stall_run --peer oncelog|kafka --load 4 --kills 3 --json`: copiers run while the broker
is killed (-9), stays down for a while and starts again on its port and files, with processes beside it that only burn
time. Reports for each kill and copier when the copier committed again, and from the client's own log the longest time
between AddOffsetsToTxn's response and the TxnOffsetCommit that must follow. Apache Kafka needs ONCELOG_KAFKA_LIBS.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.kafka.server import Kafka
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

STALLED_S = 10.0
"""A gap longer than this before a request that has no reason to wait is a stall."""
_START_S = 60.0
_ROOT = Path(__file__).parent.parent.parent.parent
_BURN = "import time\nend = time.monotonic() + 900\nwhile time.monotonic() < end: pass"
_LINE = re.compile(r"%\d\|(?P<at>[\d.]+)\|(?P<facility>\w+)\|[^|]*\|(?P<text>.*)")
_REMOVED = "Handle is terminating in state TRY_CONNECT"

Line = tuple[float, str, str]
"""A line of a client's log: wall time in seconds, facility, text."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """One copier after one kill; seconds, counted from the broker's first answer after its start."""

    kill: int
    copier: int
    down_s: float
    """Time from the kill to that answer."""
    committed_s: float | None
    """The end of the first transaction that began after it; None: not in time."""
    offsets_gap_s: float
    """The longest from AddOffsetsToTxn's response to TxnOffsetCommit's request, or to the end of the wait."""
    rebootstraps: int
    waits_for_removed: bool
    """librdkafka waits for a broker handle that it has removed itself: the handle's thread logs so, over and over."""

    @property
    def is_stalled(self) -> bool:
        return self.offsets_gap_s > STALLED_S


class Copier:
    """A copier's process, its transactions, and its log."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, options: argparse.Namespace) -> None:
        self.log = directory / f"{topic}.log"
        command = [options.python, "-m", "tests.support.foreign.stall_copier", bootstrap, topic, *options.set]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=_ROOT)
        self._transactions: list[tuple[float, float]] = []
        self._has_news = threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        for line in self._process.stdout or ():
            transaction = json.loads(line)
            with self._has_news:
                self._transactions.append((transaction["began"], transaction["committed"]))
                self._has_news.notify_all()

    def await_start(self) -> None:
        if self.first_commit(0, time.time() + _START_S) is None:
            raise RuntimeError(f"no transaction in {_START_S} s: {self._tail()}")

    def first_commit(self, since: float, deadline: float) -> float | None:
        """When, by the wall clock, the first transaction was committed that began after `since`; None: not by
        `deadline`. Raises RuntimeError for a copier that has ended."""
        with self._has_news:
            while True:
                found = next((committed for began, committed in self._transactions if began > since), None)
                left = deadline - time.time()
                if found is not None or left <= 0:
                    break
                self._has_news.wait(left)
        if found is None and self._process.poll() is not None:
            raise RuntimeError(f"the copier has ended: {self._tail()}")
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


def log_lines(lines: Iterable[str]) -> Iterator[Line]:
    for line in lines:
        if found := _LINE.match(line):
            yield float(found["at"]), found["facility"], found["text"]


def offsets_gap(lines: Iterable[Line], since: float, until: float) -> float:
    """The longest between `since` and `until` from AddOffsetsToTxn's response to TxnOffsetCommit's request."""
    longest, added = 0.0, None
    for at, facility, text in lines:
        if facility == "RECV" and "AddOffsetsToTxnResponse" in text:
            added = at
        elif facility == "SEND" and "TxnOffsetCommitRequest" in text and added is not None:
            longest = max(longest, at - max(added, since))
            added = None
    return longest if added is None else max(longest, until - max(added, since))


@contextmanager
def load(count: int) -> Iterator[None]:
    burning = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait(PATIENCE_S)


def recovery(copier: Copier, kill: int, number: int, killed: float, ready: float, patience_s: float) -> Recovery:
    committed = copier.first_commit(ready, ready + patience_s)
    until = ready + patience_s if committed is None else committed
    with copier.log.open(errors="replace") as log:
        lines = [line for line in log_lines(log) if killed <= line[0] <= until]
    return Recovery(
        kill,
        number,
        round(ready - killed, 2),
        None if committed is None else round(committed - ready, 2),
        round(offsets_gap(lines, ready, until), 2),
        sum(facility == "REBOOTSTRAP" for _, facility, _ in lines),
        any(_REMOVED in text for at, _, text in lines if at > ready),
    )


def run(options: argparse.Namespace, directory: Path) -> Iterator[Recovery]:
    random, pause = Random(options.seed), threading.Event()
    with ExitStack() as stack:
        broker: Daemon | Kafka
        if options.peer == "kafka":
            broker = Kafka(directory, overrides=options.broker)
            kill = broker.stop
        else:
            broker = Daemon(directory / "data", "group.initial.rebalance.delay.ms=0", *options.broker)
            kill = broker.kill
        stack.callback(broker.stop)
        topics = [f"ring-{number}" for number in range(options.copiers)]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
            future.result(PATIENCE_S)
        copiers = [Copier(broker.bootstrap, topic, directory, options) for topic in topics]
        stack.callback(lambda: [copier.stop() for copier in copiers])
        for copier in copiers:
            copier.await_start()
        stack.enter_context(load(options.load))
        for number in range(options.kills):
            pause.wait(random.uniform(0.5, 1.5))
            killed = time.time()
            kill()
            pause.wait(random.uniform(0, options.down))
            broker.start()
            ready, stalled = time.time(), []
            for index, copier in enumerate(copiers):
                found = recovery(copier, number, index, killed, ready, options.patience)
                yield found
                if found.committed_s is None:
                    copier.stop()
                    copier.log.rename(copier.log.with_suffix(f".{number}.stalled"))
                    stalled.append(index)
            # The next kill meets copiers that are well.
            for index in stalled:
                copiers[index] = Copier(broker.bootstrap, topics[index], directory, options)
            for index in stalled:
                copiers[index].await_start()


def options_of(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", choices=("oncelog", "kafka"), default="oncelog")
    parser.add_argument("--load", type=int, default=0, help="processes that only burn time")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--copiers", type=int, default=3)
    parser.add_argument("--down", type=float, default=2.0, help="at most so many seconds from the kill to the start")
    parser.add_argument("--patience", type=float, default=40.0, help="seconds to wait for a transaction")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the clients")
    parser.add_argument("--broker", action="append", default=[], metavar="KEY=VALUE", help="a setting of the broker")
    parser.add_argument("--python", default=sys.executable, help="the copiers', with its own confluent-kafka")
    parser.add_argument("--directory", type=Path, help="a new one, for files and logs to keep")
    parser.add_argument("--json", action="store_true", help="a line for each copier and kill as well")
    return parser.parse_args(arguments)


def main() -> None:
    options = options_of()
    # A run that is ended ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    with ExitStack() as stack:
        directory = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(exist_ok=options.directory is None)
        found = []
        for each in run(options, directory):
            found.append(each)
            if options.json:
                print(json.dumps(asdict(each)), flush=True)
    counts: dict[str, Any] = {"peer": options.peer, "load": options.load, "kills": options.kills}
    counts |= {"recoveries": len(found), "stalled": sum(each.is_stalled for each in found)}
    counts["waited_for_removed"] = sum(each.waits_for_removed for each in found)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
