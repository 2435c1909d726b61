"""The requests that the clients of this process send: what they ask, in which version and with how many bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from oncelog.client.wire.connection import Connection
from oncelog.protocol.api_keys import ApiKey


@dataclass(frozen=True, slots=True)
class SentRequest:
    key: ApiKey
    version: int
    message: Any
    size_in_bytes: int


@contextmanager
def sent_requests() -> Iterator[list[SentRequest]]:
    """Collects them while the block runs."""
    sent: list[SentRequest] = []
    original = Connection.send

    def send(self: Connection, api: Any, message: Any, *arguments: Any) -> bytes:
        data = original(self, api, message, *arguments)
        sent.append(SentRequest(api.key, self.version_of(api), message, len(data)))
        return data

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "send", send)
        yield sent
