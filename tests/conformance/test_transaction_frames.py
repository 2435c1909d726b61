"""The published frames: our broker answers them as they say, and a broker that answers otherwise is found out.

With its jars at hand (ONCELOG_KAFKA_LIBS) the test that is marked `kafka` plays them to Apache Kafka.
"""

import gzip
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c

from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Dispatcher
from tests.conformance import replay, tape
from tests.conformance.replay import Replay
from tests.conformance.transaction_recordings import DIFFERENCES, LEVELS, recorded, virtual_broker
from tests.conftest import Start
from tests.fakes.broker import HOST, PORT, VirtualBroker
from tests.support.kafka.server import Kafka

DOCUMENT = Path(__file__).parents[2] / "docs" / "compare" / "transcripts.md"


def differences(conversation: str, broker: VirtualBroker, spoil: Callable[[bytes], bytes] = bytes) -> dict[str, str]:
    """Send the frames to a broker in memory and return what differs; `spoil` is applied to each answer."""
    dispatcher = Dispatcher(broker.broker)

    def ask(frame: bytes) -> bytes:
        exchange = dispatcher.dispatch(memoryview(frame), Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT)))
        broker.time.settle()
        while not exchange.done:
            broker.let_pass(20)
        assert exchange.parts is not None, exchange.closes
        return spoil(b"".join(exchange.parts))

    player = Replay(ask, lambda pause_s: broker.let_pass(int(pause_s * 1000)), {}, broker.time.wall_ms())
    return dict(replay.run(conversation, player))


# Those that take long are held in test_against_kafka too, in messages.
@pytest.mark.parametrize(
    "conversation",
    ["appends", "partitions", *(pytest.param(name, marks=pytest.mark.slow) for name in ("transactions", "prepared"))],
)
def test_our_broker_answers_the_frames_as_kafka_did(conversation: str) -> None:
    assert differences(conversation, virtual_broker(conversation, "2")) == {}


def test_the_frames_are_those_of_the_conversation() -> None:
    """The smallest conversation, written again, gives the same frames."""
    assert list(replay.steps("appends")) == [json.loads(json.dumps(step)) for step in tape.tape("appends")]


@pytest.mark.parametrize("conversation", tape.TAPED)
def test_every_question_is_in_the_frames_and_something_is_expected_of_each_answer(conversation: str) -> None:
    """Exceptions are answers that differ from Kafka's on purpose, and lists without an order."""
    asked = {step["question"]: step for step in replay.steps(conversation) if "question" in step}
    assert set(asked) == set(recorded(conversation, "2"))
    unexpected = {question for question, step in asked.items() if not {"expect", "has", "take", "same"} & set(step)}
    assert unexpected <= set(DIFFERENCES.get(conversation, ()))


def test_the_documentation_counts_the_answers_and_explains_each_key_of_a_frame() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    counted = {
        name: int(count.replace(",", ""))
        for name, count in re.findall(r"^\| `([^`]+)` \|.*\| ([\d,]+) \|$", text, re.MULTILINE)
    }
    assert counted == {name: len(recorded(name, levels[0])) for name, levels in LEVELS.items()}
    assert f"all {sum(counted[name] for name in tape.TAPED):,} responses" in text
    explained = {
        key for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)
    }
    assert {key for name in tape.TAPED for step in replay.steps(name) for key in step} <= explained


@pytest.mark.slow
def test_a_broker_at_another_level_is_found_out() -> None:
    """The questions that differ between the levels of transaction.version differ in the frames as well: the retry of an
    instance, and the producer whose transaction timed out.
    """
    found = differences("transactions", virtual_broker("transactions", "1"))
    assert found
    assert all(question.startswith(("resumed: ", "timeouts: ", "on the way")) for question in found)


def test_an_answer_with_one_wrong_code_is_found_out() -> None:
    """Nearly each answer has an error code; a wrong one is found whichever question it answers."""
    wrong = 0
    for step in replay.steps("appends"):
        size = max((at + len(data) // 2 for at, data in step.get("expect", ())), default=0)
        for at, _ in step.get("expect", ()):
            answer = bytearray(size)
            for place, data in step["expect"]:
                answer[place : place + len(data) // 2] = bytes.fromhex(data)
            assert replay.mismatch(step | {"has": ()}, bytes(answer)) is None
            answer[at] ^= 1
            assert replay.mismatch(step, bytes(answer)) is not None
            wrong += 1
    assert wrong > 500


def test_the_checksum_of_the_player_is_crc32c() -> None:
    for data in (b"", b"123456789", bytes(range(256))):
        assert replay.crc32c(data) == crc32c(data)


def test_the_player_needs_nothing_but_the_standard_library() -> None:
    lines = Path(replay.__file__).read_text(encoding="utf-8").splitlines()
    imported = {line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert imported == {"collections", "dataclasses", "gzip", "json", "pathlib", "socket", "sys", "time", "typing"}
    with gzip.open(replay.FRAMES) as frames:
        assert json.loads(next(frames))["conversation"] == tape.TAPED[0]


def test_the_player_finds_no_difference_in_a_running_daemon(
    start_daemon: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = start_daemon("oncelog.compat=kafka")
    assert replay.main([daemon.bootstrap, "appends"]) == 0
    assert capsys.readouterr().out == "appends: 245 questions, 0 answers that differ\n"


@pytest.mark.kafka
@pytest.mark.parametrize("conversation", tape.TAPED)
def test_kafka_answers_the_frames_as_they_say(conversation: str, tmp_path: Path) -> None:
    kafka = Kafka(tmp_path, ("transaction.version=2",))
    try:
        ask = replay.connected(kafka.bootstrap)
        assert list(replay.run(conversation, Replay(ask, time.sleep, {}, int(time.time() * 1000)))) == []
    finally:
        kafka.stop()
