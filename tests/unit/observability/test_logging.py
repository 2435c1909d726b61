"""The log: one JSON object a line, unless a person looks on."""

import asyncio
import io
import json
from collections.abc import Iterator

import pytest
import structlog

from oncelog.broker.observability.logging import REQUESTS, level_of, logger_of, loop_errors, start_logging
from tests.support.requests.hostile import HOSTILE, SURROGATE, require_harmless


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


@pytest.mark.parametrize("name", [*HOSTILE.values(), SURROGATE], ids=[*HOSTILE, "lone surrogate"])
@pytest.mark.parametrize("kind", [io.StringIO, _Terminal])
def test_no_name_steers_a_terminal_or_forges_a_line(kind: type[io.StringIO], name: str) -> None:
    stream = kind()
    log = start_logging("info", stream)
    log.info("transaction.ongoing", transactional_id=name, partitions=[name], error=ValueError(name), producer_id=7)
    require_harmless(stream.getvalue(), allows_colours=kind is _Terminal)
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("name", [*HOSTILE.values(), SURROGATE], ids=[*HOSTILE, "lone surrogate"])
@pytest.mark.parametrize("kind", [io.StringIO, _Terminal])
def test_the_text_of_an_error_forges_no_line_either(kind: type[io.StringIO], name: str) -> None:
    stream = kind()
    log = start_logging("info", stream)
    try:
        raise ValueError(name)
    except ValueError:
        log.exception("handler.failed", client_id=name)
    require_harmless(stream.getvalue(), allows_colours=kind is _Terminal)
    # What is not the line of the event is indented.
    assert sum(not line.startswith("  ") for line in stream.getvalue().splitlines()) == 1


def test_an_uncaught_error_is_one_line_of_the_log() -> None:
    stream = io.StringIO()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(loop_errors(start_logging("info", stream)))
    loop.call_soon(int, 'x\n{"event":"forged"}')
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    (line,) = map(json.loads, stream.getvalue().splitlines())
    assert line["event"] == "loop.error" and "invalid literal" in line["exception"]


def test_a_terminal_gets_words_instead_of_json() -> None:
    stream = _Terminal()
    start_logging("info", stream).info("broker.started", port=9092)
    assert "broker.started" in stream.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(stream.getvalue())


def test_another_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="debug, info, warning, error"):
        start_logging("loud")


def test_a_logger_has_the_roots_level_until_it_has_its_own_and_again_without_it() -> None:
    stream = io.StringIO()
    log = start_logging("info", stream)
    requests = logger_of(log, REQUESTS)
    root = level_of(log)
    assert root is not None and list(root.children) == [REQUESTS]
    steps = (
        lambda: None,  # info, as the root
        lambda: root.child(REQUESTS).set("debug"),
        lambda: root.set("error"),  # its own is not the root's
        lambda: root.unset(REQUESTS),
        lambda: root.set("debug"),
    )
    for number, step in enumerate(steps):
        step()
        requests.debug("request", step=number)
    assert [json.loads(line)["step"] for line in stream.getvalue().splitlines()] == [1, 2, 4]


def test_a_change_of_level_reaches_its_watchers() -> None:
    root = level_of(start_logging("info", io.StringIO()))
    assert root is not None
    seen: list[str] = []
    child = root.child(REQUESTS)
    child.watch(lambda: seen.append(child.name))
    root.set("debug")
    child.set("error")
    root.set("warning")
    root.unset(REQUESTS)
    assert seen == ["debug", "error", "warning"]
