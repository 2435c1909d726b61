"""What the HTTP server and its routes exchange: requests and responses.

Owns: only the values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oncelog.broker.security.principal import ANONYMOUS, Principal


class HttpError(Exception):
    """The request fails; `status` and the message say why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class AdminRequest:
    method: str
    path: tuple[str, ...]
    """`/faults/3` is ("faults", "3"), unquoted."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    principal: Principal = ANONYMOUS
    last_event: str | None = None
    """The last event a reconnecting browser has seen (Last-Event-ID)."""

    def number(self, name: str, default: int) -> int:
        """Return a number from the query. Raises HttpError."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal() or len(text) > 18:
            raise HttpError(400, f"{name} must be a whole number")
        return int(text)

    def amount(self, name: str) -> int:
        """Return a number from the body. Raises HttpError."""
        value = self.body.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise HttpError(400, f'the body must be {{"{name}": NUMBER}}')
        return value


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: Any
    """Bytes are sent as they are, anything else as JSON."""
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class EventStream:
    """Events after this one, as they happen, until the client disconnects."""

    since: int
