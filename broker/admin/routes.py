"""What each path of the admin address does.

Owns: the table of paths. Does not own: HTTP (`server`), faults (`broker.faults`).

    GET    /                       these lines
    GET    /transactions           every transactional id: state, partitions, markers that are missing
    GET    /partitions[?topic=]    offsets of every partition, and what is open in it
    GET    /events[?since=N]       transitions and faults as they happen, as text/event-stream
    GET    /events?follow=false    those of the last 1,000 that are later than `since`, as JSON
    GET    /faults                 every rule: matched, fired, held
    POST   /faults                 plant a rule
    DELETE /faults                 remove all rules; what they hold goes on
    GET    /faults/N               one rule; ?until=fired or ?until=consumed waits for it, ?timeout_ms= long
    DELETE /faults/N               remove it; what it holds goes on
    POST   /faults/N/release       let what it holds go on; {"count": 1} only the oldest
    POST   /transactions/ID/epoch  {"producer_epoch": 32760}: go on from a later epoch, with nothing open
    POST   /producer-ids           {"next": 5000}: hand out no lower producer id
    POST   /time                   {"advance_ms": 60000}: as after a sleep; {"jump_wall_ms": -60000}: the clock
    POST   /crash                  kill -9
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from oncelog.broker.admin.exchange import AdminRequest, Answer, EventStream, Refusal
from oncelog.broker.completion import Completion
from oncelog.broker.faults.faults import Faults
from oncelog.broker.faults.planted import PlantedRule
from oncelog.broker.faults.rule import RuleError, rule_from_json
from oncelog.broker.faults.snapshot import show_partitions, show_transactions
from oncelog.protocol.errors import KafkaError

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

MAX_PRODUCER_ID = 2**63 - 1_001
MAX_JUMP_MS = 10 * 366 * 86_400_000
MAX_WAIT_MS = 60_000
_WAIT_MS = 10_000

_ANY = "*"
_Route = Callable[["Routes", AdminRequest], "Answer | EventStream | Awaitable[Answer]"]


class Routes:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def serve(self, request: AdminRequest) -> Answer | EventStream:
        """Raises Refusal."""
        allowed = []
        for method, pattern, route in _ROUTES:
            if len(pattern) == len(request.path) and all(
                wanted in (_ANY, given) for wanted, given in zip(pattern, request.path, strict=True)
            ):
                if method == request.method:
                    outcome = route(self, request)
                    return outcome if isinstance(outcome, Answer | EventStream) else await outcome
                allowed.append(method)
        if allowed:
            raise Refusal(405, f"/{'/'.join(request.path)} takes {' and '.join(allowed)}")
        raise Refusal(404, "there is nothing; GET / tells what there is")

    def _index(self, request: AdminRequest) -> Answer:
        _, _, table = (__doc__ or "").partition("\n\n    ")
        return Answer(200, {"paths": [line.strip() for line in table.strip().splitlines()]})

    # --- looking ------------------------------------------------------------------------------------------------------

    def _transactions(self, request: AdminRequest) -> Answer:
        return Answer(200, {"transactions": show_transactions(self._faults)})

    def _partitions(self, request: AdminRequest) -> Answer:
        return Answer(200, {"partitions": show_partitions(self._faults, request.query.get("topic"))})

    def _events(self, request: AdminRequest) -> Answer | EventStream:
        events = self._faults.events
        if request.query.get("follow") == "false":
            return Answer(200, {"events": events.since(request.number("since", 0))})
        last = request.last_event
        resumed = int(last) if last is not None and last.isascii() and last.isdecimal() and len(last) < 18 else None
        return EventStream(request.number("since", events.last_number if resumed is None else resumed))

    # --- rules --------------------------------------------------------------------------------------------------------

    def _rules(self, request: AdminRequest) -> Answer:
        return Answer(200, {"faults": [planted.as_json() for planted in self._faults.rules]})

    def _plant(self, request: AdminRequest) -> Answer:
        try:
            planted = self._faults.plant(rule_from_json(request.body))
        except RuleError as error:
            raise Refusal(400, str(error)) from error
        return Answer(201, planted.as_json())

    def _remove_all(self, request: AdminRequest) -> Answer:
        self._faults.remove_all()
        return Answer(200, {"faults": []})

    def _find(self, request: AdminRequest) -> PlantedRule:
        number = request.path[1]
        planted = (
            self._faults.find(int(number)) if number.isascii() and number.isdecimal() and len(number) < 10 else None
        )
        if planted is None:
            raise Refusal(404, f"no rule has the number {number}")
        return planted

    async def _rule(self, request: AdminRequest) -> Answer:
        planted = self._find(request)
        until = request.query.get("until")
        if until is not None:
            if until not in ("fired", "consumed"):
                raise Refusal(400, "until is fired or consumed")
            await self._wait(planted, until, min(request.number("timeout_ms", _WAIT_MS), MAX_WAIT_MS))
        return Answer(200, planted.as_json())

    async def _wait(self, planted: PlantedRule, until: str, timeout_ms: int) -> None:
        """Until it is so, or the time is over: the answer says which."""
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

    def _remove(self, request: AdminRequest) -> Answer:
        planted = self._find(request)
        self._faults.remove(planted)
        return Answer(200, planted.as_json())

    def _release(self, request: AdminRequest) -> Answer:
        planted = self._find(request)
        count = request.amount("count") if "count" in request.body else None
        if count is not None and count < 1:
            raise Refusal(400, "count is at least 1")
        return Answer(200, {"released": self._faults.release(planted, count)})

    # --- moving on ----------------------------------------------------------------------------------------------------

    @property
    def _broker(self) -> "Broker":
        if self._faults.broker is None:
            raise Refusal(503, "the broker is starting")
        return self._faults.broker

    async def _epoch(self, request: AdminRequest) -> Answer:
        producer_epoch = request.amount("producer_epoch")
        transactional_id = request.path[1]
        done: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

        def on_done(moved: Completion[None]) -> None:
            if not done.done():
                done.set_result(moved.error if isinstance(moved.error, KafkaError) else None)

        self._broker.transactions.move_epoch_on(transactional_id, producer_epoch).then(on_done)
        error = await done
        if error is not None:
            raise Refusal(409, f"{error.code.name}: {error}")
        return Answer(200, {"transactional_id": transactional_id, "producer_epoch": producer_epoch})

    def _producer_ids(self, request: AdminRequest) -> Answer:
        producer_id = request.amount("next")
        if not 0 <= producer_id <= MAX_PRODUCER_ID:
            raise Refusal(400, f"next is between 0 and {MAX_PRODUCER_ID}")
        self._broker.transactions.skip_producer_ids_to(producer_id)
        return Answer(200, {"next": producer_id})

    def _time(self, request: AdminRequest) -> Answer:
        time = self._faults.time
        for name, lowest, move in (("advance_ms", 0, time.advance), ("jump_wall_ms", -MAX_JUMP_MS, time.jump_wall)):
            if name in request.body:
                amount_ms = request.amount(name)
                if not lowest <= amount_ms <= MAX_JUMP_MS:
                    raise Refusal(400, f"{name} is between {lowest} and {MAX_JUMP_MS}")
                move(amount_ms)
        return Answer(200, {"now_ms": time.wall_ms(), "monotonic_ms": time.monotonic_ms()})

    def _crash(self, request: AdminRequest) -> Answer:
        self._faults.crash()


_ROUTES: tuple[tuple[str, tuple[str, ...], _Route], ...] = (
    ("GET", (), Routes._index),
    ("GET", ("transactions",), Routes._transactions),
    ("GET", ("partitions",), Routes._partitions),
    ("GET", ("events",), Routes._events),
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
