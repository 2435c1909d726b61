"""Leader epochs over restarts and kill -9, as Apache Kafka 4.3 with one broker has them: one conversation, held with
Kafka and written down, held with us each time.

`answers/leader_epoch_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked
`kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.message import Message
from tests.clients.wire import WireBroker
from tests.conformance.recording import Recording
from tests.conformance.transcripts.leader_epoch_transcript import conversation
from tests.support.kafka import Kafka

RECORDING = Recording("leader_epoch_answers.json", conversation)


class _KafkaLives:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._wire = WireBroker(kafka.bootstrap)

    def ask(self, request: Message, version: int) -> Any:
        return self._wire.ask(request, version)

    def let_pass(self, delay_ms: int) -> None:
        self._wire.let_pass(delay_ms)

    def restart(self) -> None:
        self._next(self._kafka.end)

    def kill(self) -> None:
        self._next(self._kafka.stop)

    def epoch_file(self, topic: str, partition: int) -> str | None:
        return self._kafka.read(f"{topic}-{partition}/leader-epoch-checkpoint")

    def close(self) -> None:
        self._wire.close()

    def _next(self, stop: Any) -> None:
        self._wire.close()
        stop()
        self._kafka.start()
        self._wire = WireBroker(self._kafka.bootstrap)


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path), _KafkaLives)
