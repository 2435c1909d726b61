"""Consumer groups answer as Apache Kafka 4.3 does: one conversation, held with Kafka and written down, held with us.

`answers/consumer_group_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is
marked `kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

from pathlib import Path

import pytest

from tests.conformance.recording import Differences, Recording
from tests.conformance.transcripts.consumer_group_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

# Where we answer otherwise on purpose, and why.
DIFFERENCES: Differences = {
    "offsets: fetch of None in 2, version 9": (
        "Kafka stumbles over a member epoch without a member id",
        ("UNKNOWN_MEMBER_ID", []),
    ),
    "classic_members: no subscription": (
        "Kafka stumbles over a subscription that is cut short, though it has an error for one that cannot be read",
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
}
RECORDING = Recording("consumer_group_answers.json", conversation, DIFFERENCES)


def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose() -> None:
    assert RECORDING.answers(VirtualBroker()) == RECORDING.expected()


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    assert RECORDING.differences_that_are_none() == []


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path))
