"""The console as an ASGI application: pages, their updates, and what changes something.

Owns: routes, what an action checks before and where it leads to. Does not own: what pages show (`pages`), what is said
of errors (`trouble`), who may ask (`security`), what is written (`writing`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from oncelog.client.admin.descriptions import ListedTransaction
from oncelog.client.values.records import RecordMetadata, TopicPartition
from oncelog.console.drafts import draft_of
from oncelog.console.forms import form_of
from oncelog.console.holding import Holder
from oncelog.console.legends import NUMBERS
from oncelog.console.live import INTERVAL_S, LIVE, Streams
from oncelog.console.pages import PAGES, Page, produce_form
from oncelog.console.query import BadQuery, Query
from oncelog.console.reading import Reader
from oncelog.console.rendering import Renderer, url
from oncelog.console.security import Guard
from oncelog.console.trouble import EXPECTED, UNREACHABLE, ReadOnly, status_of, trouble_of
from oncelog.protocol.transaction_states import explained, meaning_of
from oncelog.tools.asking import NotFound
from oncelog.tools.log.map.partition import MEANINGS

_READ_ONLY = "this console was started with --read-only: it changes nothing"
_UNSERVED = {
    404: ("No such page", "This console has no page at this address."),
    405: ("Not a page to look at", "This address changes something, and is asked by the buttons of other pages."),
    500: ("Not shown", "The console failed; see its output in the terminal where it runs."),
}
Show = Callable[[Request], Awaitable[Response]]


def create_app(
    reader: Reader,
    *,
    read_only: bool = False,
    no_writing: str = "",
    allowed_hosts: Collection[str] = (),
    interval_s: float = INTERVAL_S,
    is_ending: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """Return the console's application; the reader is closed with it. `no_writing` says why it writes no records."""
    if read_only:
        no_writing = _READ_ONLY
    renderer = Renderer(
        {
            "bootstrap": reader.bootstrap,
            "has_faults": reader.holder is not None,
            "has_witness": reader.witness is not None,
            "meanings": MEANINGS,
            "no_writing": no_writing,
            "number_meanings": NUMBERS,
            "read_only": read_only,
        }
    )
    streams = Streams(reader, renderer, interval_s, is_ending)
    routes: list[BaseRoute] = [
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        Route("/fence", _fencing(reader, renderer, read_only), methods=["POST"]),
        Route("/abort", _aborting(reader, renderer, read_only), methods=["POST"]),
        Route("/produce", _producing(reader, renderer, no_writing), methods=["POST"]),
        Route("/end", _ending(reader, renderer, no_writing), methods=["POST"]),
        Route("/hold", _holding(reader, renderer, no_writing), methods=["POST"]),
        Route("/release", _releasing(reader, renderer, no_writing), methods=["POST"]),
        *(Route(path, _showing(reader, renderer, path, page)) for path, page in PAGES.items()),
        *(Route(f"{LIVE}{path}", _streaming(streams, page)) for path, page in PAGES.items() if page.is_live),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await reader.close()

    # Around the whole, as a response to an unexpected error is made outside of any middleware.
    unserved = {HTTPException: _unserved(renderer), Exception: _unserved(renderer)}
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=unserved), allowed_hosts)


# --- looking ----------------------------------------------------------------------------------------------------------


def _showing(reader: Reader, renderer: Renderer, path: str, page: Page) -> Show:
    async def show(request: Request) -> Response:
        query = Query(dict(request.query_params))
        live_url = f"{LIVE}{path}?{request.url.query}" if page.is_live else None
        status, title = 200, ""
        try:
            title = page.title_of(query)
            content = renderer.part(page.template, await page.load(reader, query))
        except EXPECTED as error:
            if status_of(error) != UNREACHABLE:
                return _trouble(renderer, error)
            # The stream keeps asking, and shows the page once it can.
            status, content = UNREACHABLE, renderer.part("trouble", trouble_of(error))
        return HTMLResponse(renderer.page(title, content, section=page.section, live_url=live_url), status)

    return show


def _streaming(streams: Streams, page: Page) -> Show:
    async def stream(request: Request) -> Response:
        query = Query(dict(request.query_params))
        if not streams.has_room:
            return Response("too many pages are open\n", 503)
        events = streams.follow(page, query)
        return StreamingResponse(events, media_type="text/event-stream")

    return stream


def _unserved(renderer: Renderer) -> Callable[[Request, Exception], Awaitable[Response]]:
    """An address that has no page, and an error of ours, in the frame of the others, with a way back."""

    async def answer(_: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        title, message = _UNSERVED.get(status, _UNSERVED[500])
        content = renderer.part("trouble", {"title": title, "message": message, "hint": "", "status": status})
        headers = error.headers if isinstance(error, HTTPException) else None
        return HTMLResponse(renderer.page(title, content, section="", live_url=None), status, headers)

    return answer


def _trouble(renderer: Renderer, error: Exception) -> Response:
    content = renderer.part("trouble", trouble_of(error))
    return HTMLResponse(renderer.page("Not shown", content, section="", live_url=None), status_of(error))


# --- changing ---------------------------------------------------------------------------------------------------------


def _fencing(reader: Reader, renderer: Renderer, read_only: bool) -> Show:
    async def fence(request: Request) -> Response:
        try:
            transactional_id = _asked(request, read_only).text("id")
            epoch = await reader.fence(transactional_id)
        except EXPECTED as error:
            return _trouble(renderer, error)
        return RedirectResponse(url("/transaction", id=transactional_id, fenced=epoch), 303)

    return fence


def _aborting(reader: Reader, renderer: Renderer, read_only: bool) -> Show:
    async def abort(request: Request) -> Response:
        try:
            query = _asked(request, read_only)
            place, start = query.place, query.number("start")
            await _require_hanging(reader, place, start)
            await reader.abort(place, start)
        except EXPECTED as error:
            return _trouble(renderer, error)
        return RedirectResponse(url("/partition", topic=place.topic, partition=place.partition), 303)

    return abort


def _producing(reader: Reader, renderer: Renderer, no_writing: str) -> Show:
    async def produce(request: Request) -> Response:
        """Write the record of the form; on an error show the form again, as it was typed, with the error."""
        if no_writing:
            return _trouble(renderer, ReadOnly(no_writing))
        form = Query({})
        try:
            form = await form_of(request)
            return RedirectResponse(url("/produce", **await _written(reader, form)), 303)
        except EXPECTED as error:
            model = {**await produce_form(reader, form), **trouble_of(error)}
            content = renderer.part("produce", model)
            return HTMLResponse(renderer.page("Produce", content, section="/produce", live_url=None), status_of(error))

    return produce


async def _written(reader: Reader, form: Query) -> dict[str, object]:
    """Write the record of a form, in the transaction that it names; returns the query of the page that comes next."""
    draft, writer = draft_of(form), reader.writer
    chosen = form.text("transaction", "")
    if not chosen:
        written: RecordMetadata | None = await writer.send(draft)
    else:
        if chosen == "new":
            own = await writer.begin(form.text("id", "").strip(), form.number("timeout"))
            chosen = str(own.number)
        else:
            own = writer.find(form.number("transaction"))
        written = await writer.send_in(own, draft)
    said = {"sent": 1} if written is None else {"at": written.partition, "offset": written.offset}
    kept = {name: form.text(name, "") or None for name in ("topic", "partition", "kind")}
    return {**kept, "transaction": chosen or None, **said}


def _ending(reader: Reader, renderer: Renderer, no_writing: str) -> Show:
    async def end(request: Request) -> Response:
        if no_writing:
            return _trouble(renderer, ReadOnly(no_writing))
        try:
            query = Query(dict(request.query_params))
            await reader.writer.end(reader.writer.find(query.number("number")), query.text("how"))
        except EXPECTED as error:
            return _trouble(renderer, error)
        return RedirectResponse(url("/produce", topic=query.text("topic", "") or None), 303)

    return end


def _holding(reader: Reader, renderer: Renderer, no_writing: str) -> Show:
    async def hold(request: Request) -> Response:
        try:
            form = await form_of(request)
            transactional_id = form.text("id", "").strip()
            await _holder(reader, no_writing).hold(form.text("step"), transactional_id)
        except EXPECTED as error:
            return _trouble(renderer, error)
        return RedirectResponse(url("/hold", id=transactional_id or None), 303)

    return hold


def _releasing(reader: Reader, renderer: Renderer, no_writing: str) -> Show:
    async def release(request: Request) -> Response:
        try:
            query = Query(dict(request.query_params))
            number, holder = query.number("number"), _holder(reader, no_writing)
            await (holder.let_one_on(number) if query.text("how") == "one" else holder.let_all_on(number))
        except EXPECTED as error:
            return _trouble(renderer, error)
        return RedirectResponse("/hold", 303)

    return release


def _holder(reader: Reader, no_writing: str) -> Holder:
    """Raises ReadOnly, BadQuery."""
    if no_writing:
        raise ReadOnly(no_writing)
    if reader.holder is None:
        raise BadQuery("this console was started without --faults: it holds nothing")
    return reader.holder


async def _require_hanging(reader: Reader, place: TopicPartition, start: int) -> None:
    """Raise NotFound unless the transaction is hanging: a marker on one partition would break one that its coordinator
    can end."""
    holders = [each for each in await reader.producers(place) if each.transaction_start_offset == start]
    if len(await reader.hanging(place, holders)) < len(holders):
        owners = (await reader.owners(each.producer_id for each in holders)).values()
        named = ", ".join(repr(each.transactional_id) for each in owners)
        if any(meaning_of(each.state).can_be_aborted for each in owners):
            raise NotFound(f"the transaction is that of {named}: fence it, and its coordinator ends it")
        raise NotFound(f"the transaction is that of {named}, whose coordinator ends it: {_states_of(owners)}")


def _states_of(owners: Iterable[ListedTransaction]) -> str:
    return ", ".join(explained(each.state) for each in owners)


def _asked(request: Request, read_only: bool) -> Query:
    """Return what is to be changed. The address names it, where any name arrives as it is: browsers rewrite line ends
    in forms. Raises ReadOnly."""
    if read_only:
        raise ReadOnly(_READ_ONLY)
    return Query(dict(request.query_params))
