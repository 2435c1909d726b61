"""The log: one JSON object a line, unless a person looks on."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from broker.observability.logging import start_logging


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_a_pipe_gets_one_json_object_a_line() -> None:
    stream = io.StringIO()
    log = start_logging("info", stream)
    log.info("transaction.committed", transactional_id="orders\n1", producer_id=7)
    log.warning("config.ignored", message="x")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["transaction.committed", "config.ignored"]
    assert lines[0]["transactional_id"] == "orders\n1"
    assert lines[0]["level"] == "info"
    assert lines[0]["timestamp"].endswith("Z")


def test_what_is_below_the_level_is_not_written() -> None:
    stream = io.StringIO()
    log = start_logging("warning", stream)
    log.debug("request")
    log.info("request")
    log.error("disk.failed")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["disk.failed"]


def test_an_exception_is_part_of_its_line() -> None:
    stream = io.StringIO()
    log = start_logging("info", stream)
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("handler.failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]


def test_a_terminal_gets_words_instead_of_json() -> None:
    stream = _Terminal()
    start_logging("info", stream).info("broker.started", port=9092)
    assert "broker.started" in stream.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(stream.getvalue())


def test_another_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        start_logging("loud")
