"""Leader epochs over restarts and kill -9, as Apache Kafka 4.3 with one broker has them: one conversation, held with
Kafka and written down, held with us each time.

`answers/leader_epoch_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is
marked `kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.message import Message
from tests.clients.wire import WireBroker
from tests.conformance.recording import Differences, Recording
from tests.conformance.transcripts.leader_epoch_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

_WITHOUT_RECORDS = "in the file, without records"
"""Kafka writes a file for each partition at each start. Ours begins with the first record of an epoch, since 10,000
partitions that nobody writes to shall not delay a start: what a start adds is in the metadata log."""


def _recording() -> Recording:
    plain = Recording("leader_epoch_answers.json", conversation)
    answers = plain.kafkas() if plain.path.exists() else {}
    idle = [name for name, answer in answers.items() if name.endswith(_WITHOUT_RECORDS) and answer != "[]"]
    differences: Differences = {name: ("no file is written without a record", []) for name in idle}
    return replace(plain, differences=differences)


RECORDING = _recording()


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


class _OurLives:
    def __init__(self) -> None:
        self._broker = VirtualBroker()

    def ask(self, request: Message, version: int) -> Any:
        return self._broker.ask(request, version)

    def let_pass(self, delay_ms: int) -> None:
        self._broker.let_pass(delay_ms)

    def restart(self) -> None:
        assert self._broker.broker.logs.close() is None
        self.kill()

    def kill(self) -> None:
        self._broker = self._broker.killed()

    def epoch_file(self, topic: str, partition: int) -> str | None:
        file = self._broker.disk.files.get(f"{topic}-{partition}/leader-epoch-checkpoint")
        return None if file is None else bytes(file.data).decode()


def test_every_answer_is_kafkas_but_for_files_of_epochs_without_records() -> None:
    assert RECORDING.answers(_OurLives()) == RECORDING.expected()


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    assert RECORDING.differences_that_are_none() == []


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path), _KafkaLives)
