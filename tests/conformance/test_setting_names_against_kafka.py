"""Settings of client metrics, names with blanks, and a file of Kafka's: answered as Apache Kafka 4.3 does.

`answers/setting_names_answers.json` has what Kafka said; the test marked `kafka` asks it again.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import settings_questions as questions
from tests.conformance.recording import Differences, Recording
from tests.fakes.broker import VirtualBroker


def _started_with_a_file(directory: Path) -> VirtualBroker:
    file = directory / "server.properties"
    file.write_text("\n".join(questions.LINES))
    return VirtualBroker(file=file)


def _recording(
    name: str,
    conversation: Callable[[Any], Iterable[tuple[str, Any]]],
    differences: Differences,
    overrides: tuple[str, ...] = (),
) -> Recording:
    return Recording(
        name,
        "setting_names_answers.json",
        lambda broker, _: conversation(broker),
        differences,
        section=name,
        overrides=overrides,
    )


RECORDINGS = {
    recording.name: recording
    for recording in (
        _recording("client metrics", questions.client_metrics, questions.OTHER_PATTERNS),
        _recording("blanks", questions.blanks, {}),
        _recording("a file of Kafka", questions.file_of_kafka, questions.OTHER_IN_THE_FILE, questions.LINES),
    )
}
EVERY = pytest.mark.parametrize("recording", RECORDINGS.values(), ids=lambda recording: recording.name)


@EVERY
def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose(recording: Recording, tmp_path: Path) -> None:
    broker = _started_with_a_file(tmp_path) if recording.overrides else VirtualBroker()
    assert recording.answers(broker, broker.time.wall_ms()) == recording.expected()


@EVERY
def test_a_difference_is_listed_only_where_there_is_one(recording: Recording) -> None:
    assert recording.differences_that_are_none() == []


@pytest.mark.kafka
@EVERY
def test_kafka_still_answers_what_was_written_down(recording: Recording, tmp_path: Path) -> None:
    recording.ask(tmp_path)
