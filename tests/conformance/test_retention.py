"""What goes by itself goes as in Apache Kafka, from memory as from files, and docs/operate/retention.md says how."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.recordings import RECORDINGS
from tests.conformance.stored_segments import OurSegments
from tests.conformance.transcripts.retention_transcript import DIFFERENCES, SCENES, SETTINGS

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "retention.md"
_WITHOUT_INDEX = "roll: index full"
_RANDOM_THERE = "roll: jitter"


def compared(answers: Mapping[str, str]) -> dict[str, str]:
    return {name: answer for name, answer in answers.items() if not name.startswith(_WITHOUT_INDEX)}


def test_records_in_memory_go_as_those_in_files() -> None:
    recording = RECORDINGS["retention"]
    broker = OurSegments("oncelog.storage=memory", *SETTINGS)
    assert compared(recording.answers(broker, broker.time.wall_ms())) == compared(recording.expected())


def test_the_page_has_each_scene_once_and_says_where_we_differ() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \| (.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, *_ in rows] == list(SCENES)
    differing = {name.rpartition(",")[0] for name in DIFFERENCES}
    said = {name for name, _, ours in rows if ours.strip()}
    assert said == {*differing, _RANDOM_THERE, *[name for name in SCENES if name.startswith(_WITHOUT_INDEX)]}
