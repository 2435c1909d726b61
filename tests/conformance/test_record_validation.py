"""What Produce takes by default, and not under full validation, is what docs/compare/record-validation.md lists."""

import ast
import re
from pathlib import Path

from tests.conformance.recordings import RECORDINGS
from tests.fakes.broker import VirtualBroker

DOCUMENT = Path(__file__).parents[2] / "docs" / "compare" / "record-validation.md"


def outcome(answer: str) -> str:
    """Without the offset: it depends on what was taken before."""
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
