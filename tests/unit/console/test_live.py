"""A page's stream: when it says something, and what."""

from collections.abc import Iterator
from contextlib import aclosing

import pytest

from oncelog.client.values.errors import ConnectionLost
from oncelog.console import live
from oncelog.console.live import Streams, event
from oncelog.console.pages import Model, Page
from oncelog.console.query import Query
from oncelog.console.reading import Reader
from oncelog.console.rendering import Renderer


def following(turns: Iterator[Model | Exception]) -> tuple[Streams, Page]:
    """A page that is each of these, turn by turn."""

    async def load(_: Reader, __: Query) -> Model:
        found = next(turns)
        if isinstance(found, Exception):
            raise found
        return found

    return Streams(Reader("nobody:0", 1_000), Renderer({}), interval_s=0), Page("/", "Page", "trouble", load)


def said(message: str) -> Model:
    return {"title": "Not there", "status": 404, "message": message, "hint": ""}


async def test_a_page_is_sent_at_once_and_again_only_when_it_has_changed() -> None:
    streams, page = following(iter([said("a"), said("a"), said("b"), said("a")]))
    async with aclosing(streams.follow(page, Query({}))) as events:  # type: ignore[type-var]
        sent = [await anext(events) for _ in range(3)]
    assert [each.partition("\n")[0] for each in sent] == ["event: view"] * 3
    assert ['said">a<' in sent[0], 'said">b<' in sent[1], 'said">a<' in sent[2]] == [True] * 3


async def test_a_cluster_that_is_away_is_said_and_the_page_follows_when_it_is_back() -> None:
    streams, page = following(
        iter([said("a"), ConnectionLost("nobody there"), ConnectionLost("nobody there"), said("a")])
    )
    async with aclosing(streams.follow(page, Query({}))) as events:  # type: ignore[type-var]
        sent = [await anext(events) for _ in range(3)]
    assert [each.partition("\n")[0] for each in sent] == ["event: view", "event: trouble", "event: view"]
    assert "nobody there" in sent[1]


async def test_a_silent_stream_sends_comments_so_that_a_closed_reader_is_noticed() -> None:
    streams, page = following(iter([said("a")] * 40))
    async with aclosing(streams.follow(page, Query({}))) as events:  # type: ignore[type-var]
        assert [(await anext(events)).startswith(":") for _ in range(3)] == [False, True, True]


async def test_an_unexpected_error_is_a_bug_and_ends_the_stream() -> None:
    streams, page = following(iter([ZeroDivisionError("a bug")]))
    with pytest.raises(ZeroDivisionError):
        await anext(streams.follow(page, Query({})))
    assert streams.has_room


async def test_streams_are_counted_as_long_as_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 1)
    streams, page = following(iter([said("a")] * 9))
    async with aclosing(streams.follow(page, Query({}))) as events:  # type: ignore[type-var]
        await anext(events)
        assert not streams.has_room
    assert streams.has_room


async def test_a_server_that_ends_ends_its_streams() -> None:
    async def load(_: Reader, __: Query) -> Model:
        return said("a")

    ending = iter((False, False, True))
    streams = Streams(Reader("nobody:0", 1_000), Renderer({}), 0, lambda: next(ending))
    events = [each async for each in streams.follow(Page("/", "Page", "trouble", load), Query({}))]
    assert len(events) == 1 and streams.has_room


def test_an_event_is_what_browsers_put_together_again() -> None:
    lines = event("view", "<p>\n  a\n</p>").split("\n")
    assert lines == ["event: view", "data: <p>", "data:   a", "data: </p>", "", ""]
