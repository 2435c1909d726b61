"""Groups answer as Apache Kafka 4.3 does: one conversation, held with Kafka and written down, held with us each time.

`group_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka` asks
it again; ONCELOG_RECORD=1 writes the file anew.
"""

import json
import os
from pathlib import Path

import pytest

from tests.conformance.group_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka
from tests.support.wire import WireBroker
from tests.unit.group.members import Broker

ANSWERS = Path(__file__).with_name("group_answers.json")

# Where we answer otherwise on purpose, and why.
DIFFERENCES = {
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
