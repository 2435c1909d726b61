"""Consumer groups answer as Apache Kafka 4.3 does: one conversation, held with Kafka and written down, held with us.

`consumer_group_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked
`kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

import json
import os
from pathlib import Path

import pytest

from tests.conformance.consumer_group_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka
from tests.support.wire import WireBroker
from tests.unit.group.members import Broker

ANSWERS = Path(__file__).with_name("consumer_group_answers.json")

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "offsets: fetch of None in 2, version 9": (
        "Kafka stumbles over a member epoch without a member id",
        ("UNKNOWN_MEMBER_ID", []),
    ),
    "classic_members: no subscription": (
        "Kafka stumbles over a subscription that is cut short, though it has an error for one that cannot be read",
        "INCONSISTENT_GROUP_PROTOCOL",
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
    assert [name for name, (_, answer) in DIFFERENCES.items() if known[name] == repr(answer)] == []


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
