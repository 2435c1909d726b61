"""A fault that clients can repeat writes at most one line a second, and nothing of it is silent."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from oncelog.broker.observability.logging import level_of, start_logging
from oncelog.broker.observability.repeats import MOST_FAULTS, PAUSE_S, REPEATABLE, Repeats


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class _Log:
    """The log of a process, and a clock that stands until moved."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.now_s = 100.0
        self.log = start_logging("info", self.stream)
        level = level_of(self.log)
        assert level is not None
        self.repeats = level.repeats
        self.repeats._monotonic = lambda: self.now_s

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def test_of_many_faults_in_a_second_one_is_written_and_the_next_says_how_many_were_not() -> None:
    log = _Log()
    for number in range(1_000):
        log.log.warning("connection.closed", peer=f"10.0.0.{number}", reason=f"unknown API key {number}")
    log.now_s += PAUSE_S
    log.log.warning("connection.closed", peer="10.1.0.1", reason="unknown API key 99")
    first, second = log.lines()
    assert (first["peer"], first.get("left_out")) == ("10.0.0.0", None)
    assert (second["peer"], second["left_out"]) == ("10.1.0.1", 999)


def test_where_no_line_follows_a_line_of_its_own_says_how_many_were_left_out() -> None:
    log = _Log()
    for _ in range(5):
        log.log.error("request.failed", api="PRODUCE")
    log.repeats.report(log.log)
    assert len(log.lines()) == 1, "the second is not over"
    log.now_s += PAUSE_S
    for _ in range(3):
        log.repeats.report(log.log)
    _, last = log.lines()
    assert (last["event"], last["api"], last["level"], last["left_out"]) == ("request.failed", "PRODUCE", "error", 4)


def test_a_stop_does_not_wait_for_the_second() -> None:
    log = _Log()
    for _ in range(3):
        log.log.info("connection.refused")
    log.repeats.report(log.log, is_last=True)
    assert log.lines()[-1]["left_out"] == 2


def test_the_report_counts_as_the_line_of_its_second() -> None:
    log = _Log()
    for _ in range(2):
        log.log.info("producer.fenced")
    log.now_s += PAUSE_S
    log.repeats.report(log.log)
    log.log.info("producer.fenced")
    assert len(log.lines()) == 2


def test_faults_that_differ_do_not_hide_each_other() -> None:
    log = _Log()
    for api in ("PRODUCE", "FETCH", "PRODUCE"):
        log.log.error("request.failed", api=api)
    for reason in ("unknown API key 99", "a frame of 7 bytes", "unknown API key 98"):
        log.log.warning("connection.closed", reason=reason)
    for line in ("a", "a"):
        log.log.warning("log.recovered", message=line)
    assert [line.get("api") or line.get("reason") or line["event"] for line in log.lines()] == [
        "PRODUCE",
        "FETCH",
        "unknown API key 99",
        "a frame of 7 bytes",
        "log.recovered",
        "log.recovered",
    ]


def test_a_client_that_makes_up_reasons_gets_few_lines_and_all_of_them_are_counted() -> None:
    log = _Log()
    for second in range(3):
        for number in range(200):
            log.log.warning("connection.closed", reason=f"no topic {chr(97 + second)}{chr(0x4E00 + number)}")
        log.now_s += PAUSE_S
        log.repeats.report(log.log)
    written = log.lines()
    assert len(written) <= 3 * (MOST_FAULTS + 2)
    assert (
        sum("no topic" in str(line.get("reason")) for line in written)
        + sum(int(str(line.get("left_out", 0))) for line in written)
        == 600
    )


def test_nothing_grows_with_what_clients_send() -> None:
    repeats = Repeats(lambda: 0.0)
    for number in range(1_000):
        for name in REPEATABLE:
            text = chr(0x4E00 + number)
            repeats.may_write("info", {"event": name, "reason": text, "message": text, "transactional_id": text})
    assert len(repeats._left_out) <= len(repeats._next_s) <= MOST_FAULTS + len(REPEATABLE)
