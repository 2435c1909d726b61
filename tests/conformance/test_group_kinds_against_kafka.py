"""What Apache Kafka 4.3 answered about share groups and streams groups, asked of it again.

With its jars at hand (ONCELOG_KAFKA_LIBS); ONCELOG_RECORD=1 writes the files in `answers` anew. Those that our broker
answers are in `recordings`, where they are asked of both.
"""

from pathlib import Path

import pytest

from tests.conformance.group_kind_recordings import GROUP_KINDS
from tests.conformance.recording import Recording
from tests.conformance.recordings import RECORDINGS

_OTHERS = [recording for name, recording in GROUP_KINDS.items() if name not in RECORDINGS]


@pytest.mark.kafka
@pytest.mark.parametrize("recording", _OTHERS, ids=lambda recording: recording.name)
def test_kafka_still_answers_what_was_written_down(recording: Recording, tmp_path: Path) -> None:
    """Apache Kafka answers the conversation as it did when it was recorded."""
    recording.ask(tmp_path)
