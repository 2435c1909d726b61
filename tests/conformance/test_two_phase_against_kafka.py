"""Two-phase commit as far as Apache Kafka 4.3 knows it, and the loss of `__transaction_state`: in Kafka's own way
(oncelog.compat=kafka) the answers are those that Kafka gave.

`answers/two_phase_answers.json` is what it said; ONCELOG_RECORD=1 writes it anew, with Kafka's jars at hand.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.group_members import Broker
from tests.clients.wire import WireBroker
from tests.conformance.transcripts import two_phase_transcript
from tests.fakes.broker import VirtualBroker
from tests.support.kafka import Kafka

ANSWERS = Path(__file__).parent / "answers" / "two_phase_answers.json"
UNSTABLE, TWO_PHASE = "unstable.api.versions.enable=true", "transaction.two.phase.commit.enable=true"

Talk = Callable[[Broker, int], Iterator[tuple[str, Any]]]
CONVERSATIONS: dict[str, tuple[Talk, tuple[str, ...]]] = {
    "two-phase commit, switched off": (two_phase_transcript.two_phase, (UNSTABLE,)),
    "two-phase commit": (two_phase_transcript.two_phase, (UNSTABLE, TWO_PHASE)),
    "without __transaction_state": (two_phase_transcript.without_state, ()),
}


def answers(conversation: str, broker: Broker, wall_ms: int) -> dict[str, str]:
    return {name: repr(answer) for name, answer in CONVERSATIONS[conversation][0](broker, wall_ms)}


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_every_answer_is_kafkas(conversation: str) -> None:
    broker = VirtualBroker("oncelog.compat=kafka", *CONVERSATIONS[conversation][1])
    said = answers(conversation, broker, broker.time.wall_ms())
    assert said == json.loads(ANSWERS.read_text())[conversation]


@pytest.mark.kafka
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_kafka_still_answers_what_was_written_down(conversation: str, tmp_path: Path) -> None:
    kafka = Kafka(tmp_path, ("transaction.version=2",), overrides=CONVERSATIONS[conversation][1])
    try:
        broker = WireBroker(kafka.bootstrap)
        said = answers(conversation, broker, int(time.time() * 1000))
        broker.close()
    finally:
        kafka.stop()
    known = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    if os.environ.get("ONCELOG_RECORD"):
        known[conversation] = said
        ANSWERS.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n")
    assert said == known[conversation]
