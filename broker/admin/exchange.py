"""What the HTTP server and its routes tell each other: a request, and what is answered.

Owns: the values alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class Refusal(Exception):
    """The request is not served; `status` and the message say why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class AdminRequest:
    method: str
    path: tuple[str, ...]
    """`/faults/3` is ("faults", "3"), with nothing quoted any more."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    last_event: str | None = None
    """Where an event stream was cut off, as browsers tell it."""

    def number(self, name: str, default: int) -> int:
        """Of the query. Raises Refusal."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 18:
            raise Refusal(400, f"{name} is a whole number")
        return int(text)

    def amount(self, name: str) -> int:
        """Of the body. Raises Refusal."""
        value = self.body.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refusal(400, f'write {{"{name}": NUMBER}}')
        return value


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any


@dataclass(frozen=True, slots=True)
class EventStream:
    """Events after this one, as they come, until the client goes."""

    since: int
