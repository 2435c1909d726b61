"""Produce takes and refuses batches as Apache Kafka 4.3 does, once `oncelog.record.validation=full` is set.

`answers/produce_answers.json` is what Kafka said. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked
`kafka` asks it again; ONCELOG_RECORD=1 writes the file anew.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.conformance.recording import Recording
from tests.conformance.transcripts.produce_transcript import conversation
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

RECORDING = Recording("produce_answers.json", conversation)
DOCUMENT = Path(__file__).parents[2] / "docs" / "record-validation.md"


def outcome(answer: str) -> str:
    """Without the offset: it depends on what was taken before."""
    parsed = ast.literal_eval(answer)
    return repr((parsed[0], *parsed[2:])) if isinstance(parsed, tuple) else answer


def expected() -> dict[str, str]:
    """Kafka's answers; where it meets an exception of its own (UNKNOWN_SERVER_ERROR), the code that fits."""
    known = RECORDING.kafkas()
    for name, answer in known.items():
        if "UNKNOWN_SERVER_ERROR" in answer:
            code = "UNSUPPORTED_COMPRESSION_TYPE" if name == "compression: undefined" else "INVALID_RECORD"
            known[name] = answer.replace("UNKNOWN_SERVER_ERROR", code)
    return known


def documented() -> set[str]:
    """The rows of the table in docs/record-validation.md."""
    return set(re.findall(r"^\| `([^`]+)` \|", DOCUMENT.read_text(), re.MULTILINE))


def test_every_answer_is_kafkas_under_full_validation() -> None:
    assert RECORDING.answers(VirtualBroker("oncelog.record.validation=full")) == expected()


def test_the_rows_that_differ_by_default_are_those_in_the_documentation() -> None:
    """Each of them is a batch that Kafka refuses and that is taken here; never the other way round."""
    ours, kafkas = RECORDING.answers(VirtualBroker()), expected()
    differing = {name for name, answer in ours.items() if outcome(answer) != outcome(kafkas[name])}
    assert differing == documented()
    assert all(outcome(ours[name]) == "('NONE', [])" for name in differing)


@pytest.mark.kafka
def test_kafka_still_answers_what_was_written_down(tmp_path: Path) -> None:
    RECORDING.ask(Kafka(tmp_path))
