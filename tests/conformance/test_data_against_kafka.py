"""Produce, Fetch, ListOffsets and leader epochs answer as Apache Kafka 4.3 does: one conversation, held with Kafka and
written down, held with us each time.

`data_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka` asks
it again; ONCELOG_RECORD=1 writes the file anew.
"""

import json
import os
from pathlib import Path

import pytest

from tests.conformance.data_transcript import TOPIC, conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka
from tests.support.wire import WireBroker
from tests.unit.group.members import Broker

ANSWERS = Path(__file__).with_name("data_answers.json")

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "produced: by id to no partition": (
        "Kafka leaves the message to the client's table of errors, we say which partition there is not",
        ("UNKNOWN_TOPIC_OR_PARTITION", -1, -1, f"there is no partition {TOPIC}-99", True),
    ),
}


def answers(broker: Broker) -> dict[str, str]:
    return {name: repr(answer) for name, answer in conversation(broker)}


def recorded() -> dict[str, str]:
    known: dict[str, str] = json.loads(ANSWERS.read_text())
    return known


def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose() -> None:
    expected = recorded()
    expected.update({name: repr(answer) for name, (_, answer) in DIFFERENCES.items()})
    assert answers(VirtualBroker()) == expected


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    known = recorded()
    assert all(known[name] != repr(answer) for name, (_, answer) in DIFFERENCES.items())


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    try:
        broker = WireBroker(kafka.bootstrap)
        said = answers(broker)
        broker.close()
    finally:
        kafka.stop()
    if os.environ.get("ONCELOG_RECORD"):
        ANSWERS.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    assert said == recorded()
