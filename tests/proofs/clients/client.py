"""The clients' programs, and the ledger of what each has printed."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.proofs.clients.lines import UNKNOWN
from tests.support.foreign.interop import FLINK, GO_PROGRAM, NODE_PACKAGES, ROOT, needs
from tests.support.kafka.server import java_with_kafka
from tests.support.patience import pause
from tests.support.processes.programs import Program

JAVA = "Java's"
LIBRDKAFKA = "librdkafka's"
OWN = "oncelog's"
CLIENTS = (LIBRDKAFKA, JAVA, OWN)
"""The clients of `make proof WHAT=postgres`; tests/interop/test_takeovers.py runs the others."""
JAVA_3 = "Java's 3.x"
AIOKAFKA = "aiokafka's"
FRANZ_GO = "franz-go's"
KAFKA_PYTHON = "kafka-python's"
KAFKAJS = "KafkaJS's"
_LOOK_S = 0.05
_END_S = 30
"""A program closes its idle clients within this time, or is killed."""
_JAVA_PROGRAM = Path(__file__).with_name("JavaClient.java")
_NODE_PROGRAM = ROOT / "tests" / "interop" / "node" / "proof.js"


@dataclass
class Ledger:
    """The transactions of one client, the records that it read and its errors, in the order of its lines."""

    outcomes: dict[str, str] = field(default_factory=dict)
    """The outcome of each transaction, in the order in which they ended."""
    read: list[dict[int, list[tuple[int, str]]]] = field(default_factory=lambda: [{}])
    """Offsets and names that the follower got of each partition, for each time that it began at the beginning."""
    told: Counter[str] = field(default_factory=Counter)
    """The errors of the follower for positions that are not in the log."""
    errors: Counter[str] = field(default_factory=Counter)
    has_stopped: bool = False
    longest_ms: int = 0
    """The longest time from the beginning of a transaction to its end."""
    _from: dict[int, int] = field(default_factory=dict)
    """The reading in which each partition is."""

    def add(self, line: str) -> None:
        match line.split(" "):
            case ["end", name, outcome, milliseconds]:
                self.outcomes[name] = outcome
                self.longest_ms = max(self.longest_ms, int(milliseconds))
            case ["read", partition, offset, name]:
                reading = self._from.get(int(partition), 0)
                self.read[reading].setdefault(int(partition), []).append((int(offset), name))
            case ["told", partition, what]:
                self.told[what] += 1
                self._begin_anew(int(partition))
            case ["again", partition]:
                self._begin_anew(int(partition))
            case ["error", what]:
                self.errors[what] += 1
            case ["stopped"]:
                self.has_stopped = True

    def _begin_anew(self, partition: int) -> None:
        self._from[partition] = reading = self._from.get(partition, 0) + 1
        if reading == len(self.read):
            self.read.append({})

    @property
    def ended(self) -> int:
        """How many transactions have ended in a known way."""
        return sum(outcome != UNKNOWN for outcome in self.outcomes.values())


class Client(Program):
    """One of the programs, at work until `stop_writing` and `end`."""

    def __init__(self, kind: str, bootstrap: str, directory: Path, seed: int, rest_ms: int) -> None:
        self.kind = kind
        self.topic = self.topic_of(kind)
        self.ledger = Ledger()
        self._taken = 0
        self._may_end = False
        command = [*_PROGRAMS[self.topic](), bootstrap, self.topic, str(seed), str(rest_ms)]
        super().__init__(command, directory / f"{self.topic}.lines")

    @staticmethod
    def topic_of(kind: str) -> str:
        return _TOPICS[kind]

    def take(self) -> Ledger:
        """The ledger, with what was printed until now."""
        with self.log.open("rb") as file:
            file.seek(self._taken)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._taken += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self.ledger.add(line)
        if self.process.poll() is not None and not self._may_end:
            raise RuntimeError(f"{self.kind} client ended with {self.process.returncode}: {self.said()[-4000:]}")
        return self.ledger

    def stop_writing(self) -> None:
        """Returns when no transaction is open that its program could end."""
        if self.process.stdin is None or self.process.stdin.closed:
            raise RuntimeError("it has ended")
        self.process.stdin.write(b"stop\n")
        self.process.stdin.flush()
        while not self.take().has_stopped:
            pause(_LOOK_S)

    def end(self) -> Ledger:
        self._may_end = True
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.ledger.errors["had to be killed in the end"] += 1
            self.kill()
        return self.take()


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.proofs.clients.{module}"]


def _java_3() -> list[str]:
    """With the jars that Flink's connector needs."""
    needs(FLINK)
    return ["java", "-Xmx512m", "-cp", f"{FLINK}/*", str(_JAVA_PROGRAM)]


def _franz_go() -> list[str]:
    needs(GO_PROGRAM)
    return [str(GO_PROGRAM), "proof"]


def _kafkajs() -> list[str]:
    needs(NODE_PACKAGES)
    return ["env", f"NODE_PATH={NODE_PACKAGES}", "node", str(_NODE_PROGRAM)]


_TOPICS = {
    JAVA: "java",
    JAVA_3: "java3",
    LIBRDKAFKA: "librdkafka",
    OWN: "own",
    AIOKAFKA: "aiokafka",
    FRANZ_GO: "franz_go",
    KAFKA_PYTHON: "kafka_python",
    KAFKAJS: "kafkajs",
}
_PROGRAMS: Mapping[str, Callable[[], list[str]]] = {
    "java": lambda: [*java_with_kafka(), str(_JAVA_PROGRAM)],
    "java3": _java_3,
    "librdkafka": _python("librdkafka"),
    "own": _python("own"),
    "aiokafka": _python("aiokafka"),
    "franz_go": _franz_go,
    "kafka_python": _python("kafka_python"),
    "kafkajs": _kafkajs,
}
"""The command of each topic's client; it takes BOOTSTRAP TOPIC SEED REST_MS."""
