"""Bytes on the wire are answered, refused or left alone as by Apache Kafka 4.3: lengths, headers, versions, bodies.

`answers/framing_answers.json` is what Kafka 4.3.0 did: one KRaft node on loopback, PLAINTEXT, each row on a connection
of its own. With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka` asks it again; ONCELOG_RECORD=1
rewrites the file. Where this broker differs, the row stands in DIFFERENT with the reason.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.protocol.api_keys import ApiKey
from tests.conformance.transcripts.framing_transcript import ROWS, Row, outcome, outcomes, prepare
from tests.support.kafka.server import Kafka
from tests.support.processes.daemon import Daemon

ANSWERS = Path(__file__).parent / "answers" / "framing_answers.json"

DIFFERENT = {
    "metadata v8: string that is not UTF-8": (
        "closed",
        "Kafka replaces what it cannot read, so that two names may become one; here it is refused",
    ),
    "metadata v12: varint of five bytes, too large": (
        "closed",
        "Kafka's number overflows into a negative one, which means null; here a length that no array has is refused",
    ),
    "a fetch that waits, then the end": (
        "closed",
        "who ends the stream while a fetch waits is nearly always gone, so the wait ends; Kafka waits on",
    ),
}
"""Row → (what comes here, why)."""


def recorded() -> dict[str, str]:
    known: dict[str, str] = json.loads(ANSWERS.read_text())
    return known


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    daemon = Daemon(tmp_path_factory.mktemp("framing") / "data")
    prepare(daemon.bootstrap)
    # The first Fetch loads what it needs; of another, whose end comes while it loads, nothing waits yet.
    outcome(daemon.bootstrap, next(row for row in ROWS if not row.ends and row.asked[:1] == ((ApiKey.FETCH, 11),)))
    yield daemon.bootstrap
    daemon.stop()


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_the_broker_does_what_kafka_does(bootstrap: str, row: Row) -> None:
    expected = DIFFERENT[row.name][0] if row.name in DIFFERENT else recorded()[row.name]
    assert outcome(bootstrap, row) == expected


def test_what_is_written_down_is_what_is_asked_and_a_difference_is_one() -> None:
    known = recorded()
    assert [row.name for row in ROWS] == list(known)
    assert all(known[name] != here for name, (here, _) in DIFFERENT.items())


@pytest.mark.kafka
def test_kafka_still_does_what_was_written_down(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    try:
        prepare(kafka.bootstrap)
        done = dict(outcomes(kafka.bootstrap))
    finally:
        kafka.stop()
    if os.environ.get("ONCELOG_RECORD"):
        ANSWERS.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
    assert done == recorded()
