"""Settings are described and changed as in Apache Kafka 4.3: codes, texts, values with their sources and synonyms.

`answers/config_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked
`kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

from pathlib import Path
from typing import Any

import pytest
import structlog

from oncelog.broker.observability.logging import LogLevel
from tests.conformance.recording import Differences, Recording
from tests.conformance.transcripts.admin_configs_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

# Where we answer otherwise on purpose, and why.
DIFFERENCES: Differences = {
    "resources: change of client metrics": (
        "nothing is collected here, and a subscription that is taken would say otherwise",
        ("INVALID_REQUEST", "This broker collects no client metrics."),
    ),
    "topics: tried (('retention.ms', 9, '5'),)": (
        "Kafka fails at an operation that it does not know",
        ("INVALID_REQUEST", "Unknown operation on a setting"),
    ),
    **{
        f"security: tried listener.name.plaintext.{key} on '1'": (
            "Kafka looks for the Java class of a listener that it has, and none is loaded here",
            ("NONE", None),
        )
        for key in (
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.server.callback.handler.class",
        )
    },
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


RECORDING = Recording("config_answers.json", conversation, DIFFERENCES)


def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose() -> None:
    assert RECORDING.answers(fresh()) == RECORDING.expected()


def test_a_difference_is_listed_only_where_there_is_one() -> None:
    assert RECORDING.differences_that_are_none() == []


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path))
