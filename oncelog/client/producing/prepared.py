"""What an external coordinator stores about a prepared transaction: enough to commit or abort it from any process.

Owns: the value and its text form, as Apache Kafka's PreparedTxnState. Invariant: `parse(str(state)) == state`. KIP-939.
"""

import re
from dataclasses import dataclass
from typing import Self

from oncelog.client.values.errors import ConfigError

_TEXT = re.compile(r"([0-9]{1,19}):([0-9]{1,5})\Z")
_MAX_PRODUCER_ID, _MAX_PRODUCER_EPOCH = 2**63 - 1, 2**15 - 1


@dataclass(frozen=True, slots=True)
class PreparedTxnState:
    """The producer id and epoch of a prepared transaction; store `str(state)`, and pass it to `Producer.complete`."""

    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def has_transaction(self) -> bool:
        """Whether there is a transaction: False for the empty state."""
        return self.producer_id != -1

    def __str__(self) -> str:
        """`producer_id:producer_epoch`, or an empty string for no transaction."""
        return f"{self.producer_id}:{self.producer_epoch}" if self.has_transaction else ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the state whose `str` is `text`. Raises ConfigError."""
        if not text:
            return cls()
        found = _TEXT.match(text)
        state = cls(int(found[1]), int(found[2])) if found else cls()
        if not found or state.producer_id > _MAX_PRODUCER_ID or state.producer_epoch > _MAX_PRODUCER_EPOCH:
            raise ConfigError(f"{text[:60]!r} is not a prepared state: expected producer_id:producer_epoch")
        return state
