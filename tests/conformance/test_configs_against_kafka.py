"""Settings are described and changed as in Apache Kafka 4.3: codes, texts, values with their sources and synonyms.

`config_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka`
asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import structlog

from broker.observability.logging import LogLevel
from tests.conformance.admin_configs_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka
from tests.support.wire import WireBroker
from tests.unit.group.members import Broker

ANSWERS = Path(__file__).with_name("config_answers.json")

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "resources: change of client metrics": (
        "nothing is collected here, and a subscription that is taken would say otherwise",
        ("INVALID_REQUEST", "This broker collects no client metrics."),
    ),
    "topics: tried (('retention.ms', 9, '5'),)": (
        "Kafka fails at an operation that it does not know",
        ("INVALID_REQUEST", "Unknown operation on a setting"),
    ),
}


def fresh() -> VirtualBroker:
    """A broker whose log has a level that can change."""
    virtual = VirtualBroker()
    level = LogLevel(structlog, "error")
    virtual.broker.log = structlog.wrap_logger(
        structlog.PrintLogger(), processors=[_drop], wrapper_class=level.logger_class
    )
    return virtual


def _drop(*_: object) -> Any:
    raise structlog.DropEvent


def answers(broker: Broker) -> dict[str, str]:
    return {name: repr(answer) for name, answer in conversation(broker)}


def recorded() -> dict[str, str]:
    known: dict[str, str] = json.loads(ANSWERS.read_text())
    return known


def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose() -> None:
    expected = recorded()
    expected.update({name: repr(answer) for name, (_, answer) in DIFFERENCES.items()})
    assert answers(fresh()) == expected


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
