"""What Apache Kafka answered in a conversation, written down: ours are held to it, and Kafka can be asked again.

Owns: the file (the question's name, and the answer as Python writes it) and how Kafka is asked. Does not own: the
conversations, and where we answer otherwise on purpose, and why.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from oncelog.protocol.message import Message
from tests.clients.wire import WireBroker
from tests.support.kafka import Kafka

Differences = Mapping[str, tuple[str, object]]
"""By question: why we answer otherwise, and what."""


class Broker(Protocol):
    def ask(self, request: Message, version: int) -> Any: ...

    def let_pass(self, delay_ms: int) -> None: ...


@dataclass(frozen=True)
class Recording:
    file_name: str
    conversation: Callable[[Any], Iterable[tuple[str, Any]]]
    differences: Differences = field(default_factory=dict)

    def answers(self, broker: Broker) -> dict[str, str]:
        return {name: repr(answer) for name, answer in self.conversation(broker)}

    def kafkas(self) -> dict[str, str]:
        known: dict[str, str] = json.loads(self._path.read_text())
        return known

    def expected(self) -> dict[str, str]:
        return self.kafkas() | {name: repr(answer) for name, (_, answer) in self.differences.items()}

    def differences_that_are_none(self) -> list[str]:
        known = self.kafkas()
        return [name for name, (_, answer) in self.differences.items() if known[name] == repr(answer)]

    def ask(self, kafka: Kafka) -> None:
        """Hold the conversation with Kafka and stop it; its answers are as they were, or written down anew."""
        try:
            broker = WireBroker(kafka.bootstrap)
            said = self.answers(broker)
            broker.close()
        finally:
            kafka.stop()
        if os.environ.get("ONCELOG_RECORD"):
            self._path.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
        assert said == self.kafkas()

    @property
    def _path(self) -> Path:
        return Path(__file__).parent / "answers" / self.file_name
