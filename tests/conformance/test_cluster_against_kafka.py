"""The cluster, and what has nothing behind it on one node, answer as Apache Kafka 4.3 with those features off.

`answers/cluster_answers.json` is what Kafka said (formatted with share.version, streams.version and kraft.version 0, on
a listener without security). With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka` asks it again;
ONCELOG_RECORD=1 writes the file anew.
"""

import json
import os
from pathlib import Path

import pytest

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from tests.clients.wire import WireBroker
from tests.conformance.transcripts.cluster_transcript import Broker, conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka
from tests.test_compatibility_page import TOOL

ANSWERS = Path(__file__).parent / "answers" / "cluster_answers.json"
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
    kafka = Kafka(tmp_path, features=OFF, static_quorum=True)
    try:
        broker = WireBroker(kafka.bootstrap)
        said = answers(broker)
        listed = broker.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
        broker.close()
    finally:
        kafka.stop()
    if os.environ.get("ONCELOG_RECORD"):
        ANSWERS.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    assert said == recorded()
    # Telemetry is Kafka's too, but hidden where no plugin receives it; Produce is listed from 0 for librdkafka's sake.
    hidden = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    kafkas = {key: versions for key, versions in TOOL.KAFKA.items() if key not in hidden} | {ApiKey.PRODUCE: (0, 13)}
    assert {api.api_key: (api.min_version, api.max_version) for api in listed.api_keys} == kafkas
