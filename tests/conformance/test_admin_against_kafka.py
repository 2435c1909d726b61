"""Topics, partitions and features are administered as in Apache Kafka 4.3: codes and texts, question by question.

`answers/admin_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked
`kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

from pathlib import Path

import pytest

from tests.conformance.recording import Differences, Recording
from tests.conformance.transcripts.admin_topics_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

_FAILED = "The update failed for all features since the following feature had an error: Invalid update version "

# Where we answer otherwise on purpose, and why.
DIFFERENCES: Differences = {
    "names: colliding in one request": (
        "Kafka looks for collisions only among topics that were there before the request",
        [
            ("col.lide", "NONE", None),
            ("col_lide", "INVALID_TOPIC_EXCEPTION", "Topic 'col_lide' collides with existing topic: col.lide"),
        ],
    ),
    "partitions: to 10003": (
        "Kafka has no bound here; ours is the one that CreateTopics has, over what is added",
        [("grown", "POLICY_VIOLATION", "Excessively large number of partitions per request.")],
    ),
    "features: metadata.version to 29": (
        "Kafka can go back to the level of 4.2; here there is one level",
        (
            "INVALID_UPDATE_VERSION",
            f"{_FAILED}29 for feature metadata.version. Local controller 1 only supports versions 30-30",
        ),
    ),
    "descriptions: auto-creation of a colliding name": (
        "Kafka's broker does not wait for its controller, and the client asks on until its time is up",
        ["INVALID_TOPIC_EXCEPTION"],
    ),
}
RECORDING = Recording("admin_answers.json", conversation, DIFFERENCES)


def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose() -> None:
    assert RECORDING.answers(VirtualBroker()) == RECORDING.expected()


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    assert RECORDING.differences_that_are_none() == []


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path))
