"""What Apache Kafka answered in a conversation, written down: ours are held to it, and Kafka can be asked again.

Owns: the files (by question: the answer as Python writes it) and how Kafka is asked. Does not own: the conversations,
and where we answer otherwise on purpose, and why (`transcripts`); which there are (`recordings`).
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.asking import Broker
from tests.clients.wire import WireBroker
from tests.fakes.broker import VirtualBroker
from tests.support.kafka.server import Kafka

ANSWERS = Path(__file__).parent / "answers"
Differences = Mapping[str, tuple[str, object]]
"""The answers that differ on purpose, by question: the reason, and our answer."""


Conversation = Callable[[Any, int], Iterable[tuple[str, Any]]]
"""Given a broker and the wall time in milliseconds, yields each question with the relevant part of its answer."""


def _connected(kafka: Kafka) -> WireBroker:
    return WireBroker(kafka.bootstrap)


@dataclass(frozen=True)
class Recording:
    name: str
    file_name: str
    conversation: Conversation
    differences: Differences = field(default_factory=dict)
    section: str | None = None
    """The section of a file with several conversations."""
    level: str | None = None
    """The level of transaction.version. At level 1 a file has only the answers that differ from level 2."""
    ours: Callable[[], Any] = VirtualBroker
    connected: Callable[[Kafka], Any] = _connected
    features: Sequence[str] = ()
    overrides: Sequence[str] = ()
    """These are Kafka's own, as it is started."""
    static_quorum: bool = False
    spelt: Callable[[Any], str] = repr
    is_long: bool = False
    """Thousands of requests."""

    def answers(self, broker: Broker, wall_ms: int) -> dict[str, str]:
        return {name: self.spelt(answer) for name, answer in self.conversation(broker, wall_ms)}

    def our_answers(self) -> dict[str, str]:
        broker = self.ours()
        return self.answers(broker, broker.time.wall_ms())

    def kafkas(self) -> dict[str, str]:
        known: Any = json.loads(self._path.read_text())
        if self.section is not None:
            known = known[self.section]
        if self.level is not None:
            known = known.get("2", {}) | known[self.level]
        answers: dict[str, str] = known
        return answers

    def expected(self) -> dict[str, str]:
        return self.kafkas() | {name: self.spelt(answer) for name, (_, answer) in self.differences.items()}

    def differences_that_are_none(self) -> list[str]:
        known = self.kafkas()
        return [name for name, (_, answer) in self.differences.items() if known[name] == self.spelt(answer)]

    def ask(self, directory: Path) -> None:
        """Hold the conversation with Kafka; its answers are as recorded, or are recorded again."""
        kafka = Kafka(directory, self.features, static_quorum=self.static_quorum, overrides=self.overrides)
        try:
            broker = self.connected(kafka)
            said = self.answers(broker, int(time.time() * 1000))
            broker.close()
        finally:
            kafka.stop()
        if os.environ.get("ONCELOG_RECORD"):
            self._write(said)
        assert said == self.kafkas()

    def _write(self, said: dict[str, str]) -> None:
        known: Any = json.loads(self._path.read_text()) if self._path.exists() else {}
        if self.level is not None:
            levels = known.setdefault(self.section, {})
            base = {} if self.level == "2" else levels.get("2", {})
            levels[self.level] = {name: answer for name, answer in said.items() if base.get(name) != answer}
        elif self.section is not None:
            known[self.section] = said
        else:
            known = said
        self._path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")

    @property
    def _path(self) -> Path:
        return ANSWERS / self.file_name
