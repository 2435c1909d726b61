"""What each path of the admin address does.

Owns: the table of paths. Does not own: HTTP (`server`), faults (`broker.faults`).

    GET    /                       this list
    GET    /transactions           every transactional id: state, partitions, missing markers
    GET    /partitions[?topic=]    offsets and open transactions of every partition
    GET    /events[?since=N]       transitions and faults as they happen, as text/event-stream
    GET    /events?follow=false    those of the last 1,000 that are later than `since`, as JSON
    GET    /witness                mistakes of clients; 404 without oncelog.witness.enable
    GET    /share-groups/GROUP     what a share group has in flight, and which of its records fail
    GET    /faults                 every rule: matched, fired, held
    POST   /faults                 plant a rule
    DELETE /faults                 remove all rules, and release what they hold
    GET    /faults/N               one rule; ?until=fired or ?until=consumed waits for it, at most ?timeout_ms=
    DELETE /faults/N               remove it, and release what it holds
    POST   /faults/N/release       release what it holds; {"count": 1} only the oldest
    POST   /transactions/ID/epoch  {"producer_epoch": 32760}: continue from a later epoch; no transaction may be open
    POST   /producer-ids           {"next": 5000}: assign no lower producer id
    POST   /time                   {"advance_ms": 60000}: as after a sleep; {"jump_wall_ms": -60000}: the wall clock
    POST   /crash                  kill -9
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from oncelog.broker.admin.messages import AdminRequest, EventStream, HttpError, Response
from oncelog.broker.admin.share_groups_route import share_group_response
from oncelog.broker.admin.witness_route import witness_response
from oncelog.broker.faults.faults import Faults
from oncelog.broker.faults.planted import PlantedRule
from oncelog.broker.faults.rule import RuleError, rule_from_json
from oncelog.broker.faults.snapshot import show_partitions, show_transactions
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import KafkaError

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker

MAX_PRODUCER_ID = 2**63 - 1_001
MAX_JUMP_MS = 10 * 366 * 86_400_000
MAX_WAIT_MS = 60_000
_WAIT_MS = 10_000

_ANY = "*"
_Route = Callable[["Routes", AdminRequest], "Response | EventStream | Awaitable[Response]"]


class Routes:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def serve(self, request: AdminRequest) -> Response | EventStream:
        """Raises HttpError."""
        allowed = []
        for method, pattern, route in _ROUTES:
            if len(pattern) == len(request.path) and all(
                wanted in (_ANY, given) for wanted, given in zip(pattern, request.path, strict=True)
            ):
                if method == request.method:
                    outcome = route(self, request)
                    return outcome if isinstance(outcome, Response | EventStream) else await outcome
                allowed.append(method)
        if allowed:
            raise HttpError(405, f"/{'/'.join(request.path)} takes {' and '.join(allowed)}")
        raise HttpError(404, "no such path; GET / lists them")

    def _index(self, request: AdminRequest) -> Response:
        _, _, table = (__doc__ or "").partition("\n\n    ")
        return Response(200, {"paths": [line.strip() for line in table.strip().splitlines()]})

    # --- inspecting ---------------------------------------------------------------------------------------------------

    def _transactions(self, request: AdminRequest) -> Response:
        return Response(200, {"transactions": show_transactions(self._faults)})

    def _partitions(self, request: AdminRequest) -> Response:
        return Response(200, {"partitions": show_partitions(self._faults, request.query.get("topic"))})

    def _events(self, request: AdminRequest) -> Response | EventStream:
        events = self._faults.events
        if request.query.get("follow") == "false":
            return Response(200, {"events": events.since(request.number("since", 0))})
        last = request.last_event
        resumed = int(last) if last is not None and last.isascii() and last.isdecimal() and len(last) < 18 else None
        return EventStream(request.number("since", events.last_number if resumed is None else resumed))

    async def _witness(self, request: AdminRequest) -> Response:
        return await witness_response(self._broker)

    async def _share_group(self, request: AdminRequest) -> Response:
        return await share_group_response(self._broker, request.path[1])

    # --- rules --------------------------------------------------------------------------------------------------------

    def _rules(self, request: AdminRequest) -> Response:
        return Response(200, {"faults": [planted.as_json() for planted in self._faults.rules]})

    def _plant(self, request: AdminRequest) -> Response:
        try:
            planted = self._faults.plant(rule_from_json(request.body))
        except RuleError as error:
            raise HttpError(400, str(error)) from error
        return Response(201, planted.as_json())

    def _remove_all(self, request: AdminRequest) -> Response:
        self._faults.remove_all()
        return Response(200, {"faults": []})

    def _find(self, request: AdminRequest) -> PlantedRule:
        number = request.path[1]
        planted = (
            self._faults.find(int(number)) if number.isascii() and number.isdecimal() and len(number) < 10 else None
        )
        if planted is None:
            raise HttpError(404, f"no rule has the number {number}: GET /faults lists them")
        return planted

    async def _rule(self, request: AdminRequest) -> Response:
        planted = self._find(request)
        until = request.query.get("until")
        if until is not None:
            if until not in ("fired", "consumed"):
                raise HttpError(400, "until must be fired or consumed")
            await self._wait(planted, until, min(request.number("timeout_ms", _WAIT_MS), MAX_WAIT_MS))
        return Response(200, planted.as_json())

    async def _wait(self, planted: PlantedRule, until: str, timeout_ms: int) -> None:
        """Wait until the rule has fired or is consumed, or the timeout has passed; the response says which."""
        changed = asyncio.Event()
        stop = self._faults.events.listen(lambda _: changed.set())
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not (planted.is_consumed if until == "consumed" else planted.fired_count):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            return
        finally:
            stop()

    def _remove(self, request: AdminRequest) -> Response:
        planted = self._find(request)
        self._faults.remove(planted)
        return Response(200, planted.as_json())

    def _release(self, request: AdminRequest) -> Response:
        planted = self._find(request)
        count = request.amount("count") if "count" in request.body else None
        if count is not None and count < 1:
            raise HttpError(400, "count must be at least 1")
        return Response(200, {"released": self._faults.release(planted, count)})

    # --- changing -----------------------------------------------------------------------------------------------------

    @property
    def _broker(self) -> "Broker":
        if self._faults.broker is None:
            raise HttpError(503, "the broker is starting: try again later")
        return self._faults.broker

    async def _epoch(self, request: AdminRequest) -> Response:
        producer_epoch = request.amount("producer_epoch")
        transactional_id = request.path[1]
        done: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

        def on_done(moved: Completion[None]) -> None:
            if not done.done():
                done.set_result(moved.error if isinstance(moved.error, KafkaError) else None)

        self._broker.transactions.move_epoch_on(transactional_id, producer_epoch).then(on_done)
        error = await done
        if error is not None:
            raise HttpError(409, f"{error.code.name}: {error}")
        return Response(200, {"transactional_id": transactional_id, "producer_epoch": producer_epoch})

    def _producer_ids(self, request: AdminRequest) -> Response:
        producer_id = request.amount("next")
        if not 0 <= producer_id <= MAX_PRODUCER_ID:
            raise HttpError(400, f"next must be between 0 and {MAX_PRODUCER_ID}")
        self._broker.transactions.skip_producer_ids_to(producer_id)
        return Response(200, {"next": producer_id})

    def _time(self, request: AdminRequest) -> Response:
        time = self._faults.time
        for name, lowest, move in (("advance_ms", 0, time.advance), ("jump_wall_ms", -MAX_JUMP_MS, time.jump_wall)):
            if name in request.body:
                amount_ms = request.amount(name)
                if not lowest <= amount_ms <= MAX_JUMP_MS:
                    raise HttpError(400, f"{name} must be between {lowest} and {MAX_JUMP_MS}")
                move(amount_ms)
        return Response(200, {"now_ms": time.wall_ms(), "monotonic_ms": time.monotonic_ms()})

    def _crash(self, request: AdminRequest) -> Response:
        self._faults.crash()


_ROUTES: tuple[tuple[str, tuple[str, ...], _Route], ...] = (
    ("GET", (), Routes._index),
    ("GET", ("transactions",), Routes._transactions),
    ("GET", ("partitions",), Routes._partitions),
    ("GET", ("events",), Routes._events),
    ("GET", ("witness",), Routes._witness),
    ("GET", ("share-groups", _ANY), Routes._share_group),
    ("GET", ("faults",), Routes._rules),
    ("POST", ("faults",), Routes._plant),
    ("DELETE", ("faults",), Routes._remove_all),
    ("GET", ("faults", _ANY), Routes._rule),
    ("DELETE", ("faults", _ANY), Routes._remove),
    ("POST", ("faults", _ANY, "release"), Routes._release),
    ("POST", ("transactions", _ANY, "epoch"), Routes._epoch),
    ("POST", ("producer-ids",), Routes._producer_ids),
    ("POST", ("time",), Routes._time),
    ("POST", ("crash",), Routes._crash),
)
