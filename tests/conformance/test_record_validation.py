"""What Produce accepts by default, and not under full validation, is what docs/compare/record-validation.md lists."""

import ast
import re
from pathlib import Path

from tests.conformance.recordings import RECORDINGS
from tests.conformance.transcripts.frames_transcript import KINDS, UNREADABLE
from tests.fakes.broker import VirtualBroker

DOCUMENT = Path(__file__).parents[2] / "docs" / "compare" / "record-validation.md"


def outcome(answer: str) -> str:
    """The answer without the offset, which depends on what was taken before."""
    parsed = ast.literal_eval(answer)
    return repr((parsed[0], *parsed[2:])) if isinstance(parsed, tuple) else answer


def documented() -> set[str]:
    """The rows of the table in docs/compare/record-validation.md."""
    return set(re.findall(r"^\| `([^`]+)` \|", DOCUMENT.read_text(), re.MULTILINE))


def test_the_rows_that_differ_by_default_are_those_in_the_documentation() -> None:
    """Each of them is a batch that Kafka refuses and that is taken here; never the other way round."""
    recording = RECORDINGS["produce"]
    broker = VirtualBroker()
    ours, kafkas = recording.answers(broker, broker.time.wall_ms()), recording.expected()
    differing = {name for name, answer in ours.items() if outcome(answer) != outcome(kafkas[name])}
    assert differing == documented()
    assert all(outcome(ours[name]) == "('NONE', [])" for name in differing)


def test_by_default_too_no_record_is_lost_in_a_batch_of_several_frames() -> None:
    """A batch that the broker opens gets Kafka's answer. One that it stores as it is reads the same in Kafka's readers
    and ours, and a batch that Kafka refuses fails its reader rather than lose a record.
    """
    recording = RECORDINGS["frames"]
    broker = VirtualBroker()
    ours, expected = recording.answers(broker, broker.time.wall_ms()), recording.expected()
    as_it_is, *opened = ({name for name in ours if name.endswith(f", {kind}")} for kind in KINDS)
    assert {name: ours[name] for each in opened for name in each} == {
        name: expected[name] for each in opened for name in each
    }
    differing = {name for name in as_it_is if ours[name] != expected[name]}
    assert all(expected[name].startswith("('INVALID_RECORD'") for name in differing)
    assert {ours[name] for name in differing} == {repr(("NONE", [], UNREADABLE))}
