"""Groups answer as Apache Kafka 4.3 does: one conversation, held with Kafka and written down, held with us each time.

`answers/group_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked
`kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

from pathlib import Path

import pytest

from tests.conformance.recording import Differences, Recording
from tests.conformance.transcripts.group_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

# Where we answer otherwise on purpose, and why.
DIFFERENCES: Differences = {
    "transactions: another transactional id": (
        "Kafka asks its transaction coordinator only for the first commit of a transaction, we ask ours each time, so "
        "that nothing slips in between the end of a transaction and its marker",
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "transactions: all fetched when they must be stable": (
        "Kafka leaves out what has only a pending offset, which a client would take for no offset at all",
        ("NONE", [(0, -1, 0, "UNSTABLE_OFFSET_COMMIT")]),
    ),
}
RECORDING = Recording("group_answers.json", conversation, DIFFERENCES)


def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose() -> None:
    assert RECORDING.answers(VirtualBroker()) == RECORDING.expected()


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    assert RECORDING.differences_that_are_none() == []


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path))
