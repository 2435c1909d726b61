"""The cluster, and what has nothing behind it on one node, answer as Apache Kafka 4.3 with those features off.

`cluster_answers.json` is what Kafka said (formatted with share.version and streams.version 0, on a listener without
security). With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka` asks it again; ONCELOG_RECORD=1
writes the file anew.
"""

import json
import os
from pathlib import Path

import pytest

from tests.conformance.cluster_transcript import Broker, conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka
from tests.support.wire import WireBroker

ANSWERS = Path(__file__).with_name("cluster_answers.json")
OFF = ("share.version=0", "streams.version=0")


def answers(broker: Broker) -> dict[str, str]:
    return dict(conversation(broker))


def recorded() -> dict[str, str]:
    known: dict[str, str] = json.loads(ANSWERS.read_text())
    return known


def test_every_answer_is_kafkas() -> None:
    ours, kafkas = answers(VirtualBroker()), recorded()
    assert ours.keys() == kafkas.keys()
    differing = {name: (answer, kafkas[name]) for name, answer in ours.items() if answer != kafkas[name]}
    assert not differing


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path, features=OFF)
    try:
        broker = WireBroker(kafka.bootstrap)
        said = answers(broker)
        broker.close()
    finally:
        kafka.stop()
    if os.environ.get("ONCELOG_RECORD"):
        ANSWERS.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    assert said == recorded()
