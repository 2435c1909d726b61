"""Rules: at which point, for which requests, how often, and what then. Values, checked when created.

Owns: the points, the actions, the table of which action is valid where, the JSON form. Does not own: active rules
(`planted`), how an action is carried out (`requests`, `markers`, `disk`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode

MAX_DELAY_MS = 366 * 86_400_000


class Point(Enum):
    """Where a broker can be stopped between two steps."""

    REQUEST = "request"
    """The request has arrived and is not handled yet."""
    ANSWER = "answer"
    """The request is handled and durable; the response is about to be sent."""
    MARKER = "marker"
    """PREPARE is durable; the marker of one partition is about to be written."""
    MARKER_WRITTEN = "marker_written"
    """A marker is durable; the coordinator is not notified yet, so COMPLETE waits."""
    APPEND = "append"
    """A batch is about to be written to a partition's log."""
    APPENDED = "appended"
    """The batch is written; before a crash here everything written is made durable."""


class Action(Enum):
    """The effect of a rule when it fires."""

    HOLD = "hold"
    """Wait until released."""
    DELAY = "delay"
    """Wait for `delay_ms`."""
    ERROR = "error"
    """Respond with `error`; at a `*_written` or ANSWER point the work is done all the same."""
    DROP = "drop"
    """Close the connection: before the work is done, or in place of the response."""
    DUPLICATE = "duplicate"
    """Do it now, and again `delay_ms` later or when released, like a late packet of another connection."""
    CRASH = "crash"
    """kill -9, here and now."""
    TEAR = "tear"
    """kill -9 in the middle of the write: half of the batch is written."""
    NO_ROOM = "no_room"
    """The disk is full, this once: nothing is written, and the disk stays usable."""
    IO_ERROR = "io_error"
    """The disk fails: nothing is written, and its contents cannot be trusted any more."""


_A, _P = Action, Point
POSSIBLE: dict[Point, frozenset[Action]] = {
    _P.REQUEST: frozenset({_A.HOLD, _A.DELAY, _A.ERROR, _A.DROP, _A.DUPLICATE, _A.CRASH}),
    _P.ANSWER: frozenset({_A.HOLD, _A.DELAY, _A.ERROR, _A.DROP, _A.CRASH}),
    _P.MARKER: frozenset({_A.HOLD, _A.DELAY, _A.ERROR, _A.DUPLICATE, _A.CRASH}),
    _P.MARKER_WRITTEN: frozenset({_A.HOLD, _A.DELAY, _A.ERROR, _A.CRASH}),
    _P.APPEND: frozenset({_A.CRASH, _A.TEAR, _A.NO_ROOM, _A.IO_ERROR}),
    _P.APPENDED: frozenset({_A.CRASH}),
}
"""The valid actions of each point."""

_OF_REQUESTS = (_P.REQUEST, _P.ANSWER)
_STATES = frozenset({"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"})


class RuleError(ValueError):
    """An invalid rule; the message says why."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A selection of occurrences: each field that is set must match; an empty selector matches everything. `api` may be
    a name or a key: "EndTxn", "END_TXN", 26. Raises RuleError."""

    api: ApiKey | None = None
    client_id: str | None = None
    transactional_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    state: str | None = None
    """The state in a record that is appended to `__transaction_state`, as Kafka spells it (`PrepareCommit`)."""

    def __post_init__(self) -> None:
        for name in ("client_id", "transactional_id", "topic", "state"):
            if not isinstance(getattr(self, name), str | None):
                raise RuleError(f"{name} must be a string")
        _check_number("partition", self.partition)
        if self.api is not None:
            object.__setattr__(self, "api", _api(self.api))


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault rule. Raises RuleError if point, action and selector do not go together.

        Rule(Point.REQUEST, Action.DELAY, Selector(api=ApiKey.END_TXN), delay_ms=500, times=None)

    Point, action and error may be names, too: `Rule("request", "delay", ...)`. It applies to every occurrence that the
    selector matches, from the `nth` on.
    """

    point: Point
    action: Action
    of: Selector = field(default_factory=Selector)
    nth: int = 1
    """The number of the first match at which the rule fires."""
    times: int | None = 1
    """How often it fires in all; None for always."""
    delay_ms: int | None = None
    error: ErrorCode = ErrorCode.NONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", _choice(Point, "point", self.point))
        object.__setattr__(self, "action", _choice(Action, "action", self.action))
        object.__setattr__(self, "error", _error(self.error))
        if not isinstance(self.of, Selector):
            raise RuleError(f"of is {self.of!r}: must be a Selector, such as Selector(api='EndTxn')")
        for name in ("nth", "times", "delay_ms"):
            _check_number(name, getattr(self, name))
        of, action, point = self.of, self.action, self.point
        if action not in POSSIBLE[point]:
            possible = ", ".join(sorted(possible.value for possible in POSSIBLE[point]))
            raise RuleError(f"{action.value} is not valid at the point {point.value}: {possible} are")
        if not self.nth or self.nth < 1 or (self.times is not None and self.times < 1):
            raise RuleError("nth and times must be at least 1")
        if (action is Action.DELAY) != (self.delay_ms is not None) and action is not Action.DUPLICATE:
            raise RuleError("delay_ms is required by delay, optional for duplicate, and not valid otherwise")
        if self.delay_ms is not None and not 0 <= self.delay_ms <= MAX_DELAY_MS:
            raise RuleError(f"delay_ms must be between 0 and {MAX_DELAY_MS}")
        if (action is Action.ERROR) != (self.error is not ErrorCode.NONE):
            raise RuleError("error is required by the action error, must not be NONE, and is not valid otherwise")
        if (of.api is not None or of.client_id is not None) and point not in _OF_REQUESTS:
            raise RuleError(f"api and client_id select requests: the point {point.value} has none")
        if of.state is not None and (point in _OF_REQUESTS or of.state not in _STATES):
            raise RuleError(f"state selects appends and markers by one of {', '.join(sorted(_STATES))}")

    def as_json(self) -> dict[str, Any]:
        """Return the input of `rule_from_json`, without defaults."""
        of = self.of
        values: dict[str, Any] = {
            "point": self.point.value,
            "action": self.action.value,
            "api": None if of.api is None else api_name(of.api),
            "client_id": of.client_id,
            "transactional_id": of.transactional_id,
            "topic": of.topic,
            "partition": of.partition,
            "state": of.state,
            "delay_ms": self.delay_ms,
            "error": None if self.error is ErrorCode.NONE else self.error.name,
        }
        given = {name: value for name, value in values.items() if value is not None}
        return {**given, "nth": self.nth, "times": self.times}


def rules_from_text(text: str) -> list[Rule]:
    """Parse a JSON list of rules. Raises RuleError."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RuleError(f"not JSON: {error}") from error
    if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
        raise RuleError("not a JSON list of rules")
    return [rule_from_json(each) for each in values]


_OF_A_SELECTOR = tuple(each.name for each in fields(Selector))
_OF_A_RULE = tuple(each.name for each in fields(Rule) if each.name != "of")
_KNOWN = (*_OF_A_RULE, *_OF_A_SELECTOR)


def rule_from_json(values: Mapping[str, Any]) -> Rule:
    """Raises RuleError, whose message names the field."""
    unknown = sorted(set(values) - set(_KNOWN))
    if unknown:
        raise RuleError(f"{unknown[0]} is not a field of a rule; the fields are {', '.join(_KNOWN)}")
    of = Selector(**{name: values.get(name) for name in _OF_A_SELECTOR})
    # null is the default, but for times, which then has no limit.
    given: dict[str, Any] = {"point": None, "action": None}
    given |= {name: values[name] for name in _OF_A_RULE if values.get(name) is not None}
    if "times" in values:
        given["times"] = values["times"]
    return Rule(of=of, **given)


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | None):
        raise RuleError(f"{name} must be a whole number")


def _choice(kind: Any, name: str, value: object) -> Any:
    for choice in kind:
        if value in (choice, choice.value, choice.name):
            return choice
    raise RuleError(f"{name} is {value!r}: must be one of {', '.join(choice.value for choice in kind)}")


def api_name(api: ApiKey) -> str:
    """Return the API's name as Kafka spells it: `EndTxn`."""
    return "".join(word.capitalize() for word in api.name.split("_"))


def _api(value: object) -> ApiKey:
    for api in ApiKey:
        if value in (api_name(api), api.name, int(api)):
            return api
    raise RuleError(f"api is {value!r}: must be a name such as EndTxn, or its API key")


def _error(value: object) -> ErrorCode:
    for code in ErrorCode:
        if value in (code.name, int(code)) and not isinstance(value, bool):
            return code
    raise RuleError(f"error is {value!r}: must be a name such as NOT_COORDINATOR, or its code")
