"""Groups and their offsets end as in Apache Kafka 4.3: a conversation held with Kafka, written down, held with us.

`answers/group_endings_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is
marked `kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

from pathlib import Path

import pytest

from tests.conformance.recording import Differences, Recording
from tests.conformance.transcripts.group_endings_transcript import SETTINGS, conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

_STEP_MS = 500

# Where we answer otherwise on purpose, and why.
DIFFERENCES: Differences = {
    "vanished: transactional commit": (
        "Kafka asks the partition about the transaction first, and it is not there; either sends the producer to look "
        "the coordinator up again",
        "NOT_COORDINATOR",
    ),
}


class Stepping(VirtualBroker):
    """Takes its background turns while time passes."""

    def let_pass(self, delay_ms: int) -> None:
        for _ in range(0, delay_ms, _STEP_MS):
            self.time.advance(_STEP_MS)
            self.broker.transactions.step()
            self.broker.groups.step()
            self.time.settle()


RECORDING = Recording("group_endings_answers.json", conversation, DIFFERENCES)


def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose() -> None:
    assert RECORDING.answers(Stepping(*SETTINGS)) == RECORDING.expected()


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    assert RECORDING.differences_that_are_none() == []


@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path, overrides=SETTINGS))
