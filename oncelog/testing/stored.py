"""A record that a test reads back, with its value as text and as JSON.

Owns: these views. Does not own: the record (`client.values.records`), which it is and is equal to.
"""

import json
from typing import Any

from oncelog.client import Record

__tracebackhide__ = True


class StoredRecord(Record[bytes, bytes]):
    """One record in the broker of a test: an `oncelog.Record` of bytes."""

    __slots__ = ()

    @property
    def text(self) -> str | None:
        """The value as UTF-8; None for a tombstone. Raises ValueError."""
        return self._decoded("value", self.value)

    @property
    def key_text(self) -> str | None:
        """The key as UTF-8; None without a key. Raises ValueError."""
        return self._decoded("key", self.key)

    def json(self) -> Any:
        """Return what the value says as JSON; None for a tombstone. Raises ValueError."""
        text = self.text
        try:
            return None if text is None else json.loads(text)
        except ValueError as error:
            raise ValueError(f"the value of {self._place} is not JSON ({error}): {text!r}") from None

    @property
    def _place(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"

    def _decoded(self, what: str, data: bytes | None) -> str | None:
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"the {what} of {self._place} is not UTF-8 ({error.reason}): {data!r}") from None
