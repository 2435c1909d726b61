"""We answer as Apache Kafka 4.3 does: conversations held with it and written down, held with us each time.

With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka` asks it again; ONCELOG_RECORD=1 rewrites the
file in `answers`.
"""

from pathlib import Path

import pytest

from tests.conformance.recording import Recording
from tests.conformance.recordings import RECORDINGS

EVERY = pytest.mark.parametrize("recording", RECORDINGS.values(), ids=lambda recording: recording.name)


# The longest take 7 s of processor time, which came to more than 60 s on a machine with four times the load.
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "recording",
    [
        pytest.param(recording, id=name, marks=[pytest.mark.slow] if recording.is_long else [])
        for name, recording in RECORDINGS.items()
    ],
)
def test_every_answer_is_kafkas_but_for_those_that_differ_on_purpose(recording: Recording) -> None:
    assert recording.our_answers() == recording.expected()


@EVERY
def test_a_difference_is_listed_only_where_there_is_one(recording: Recording) -> None:
    assert recording.differences_that_are_none() == []


@pytest.mark.kafka
@EVERY
def test_kafka_still_answers_what_was_written_down(recording: Recording, tmp_path: Path) -> None:
    recording.ask(tmp_path)
