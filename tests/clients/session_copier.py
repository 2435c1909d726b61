"""A copier as an application would write it: the client's own `TransactionalSession` copies a topic into another.

Owns: how long it thinks, when it starts again. Does not own: the network, what must come out.
"""

from contextlib import suppress
from random import Random

from oncelog.client import KafkaError, TransactionalSession
from tests.clients.simulated import INPUT, TIMEOUT_MS
from tests.fakes.virtual_loop import pass_time
from tests.history.events import Partition

COPIES: Partition = ("copies", 0)
COPIERS = "copiers"
_THINKING_MS = (0, 10, 40, 100, 250, 2 * TIMEOUT_MS)
_THINKING_WEIGHTS = (20, 20, 40, 40, 20, 1)
_LONG_TIMEOUT_MS = 60_000
"""Under transaction.version 1, a transaction that times out fences its producer for good."""
_SESSION_MS = 6_000
"""The shortest that a broker allows."""


class SessionCopier:
    """Reads `INPUT`, writes `COPIES`."""

    def __init__(self, random: Random, bootstrap: str) -> None:
        self.commits = 0
        self.aborts = 0
        self.sessions = 0
        self.hurries = False
        """It thinks no longer, and stays."""
        self._random = random
        self._bootstrap = bootstrap
        self._max_records = random.choice([1, 2, 5])
        self._transaction_timeout_ms = random.choice([TIMEOUT_MS, _LONG_TIMEOUT_MS, _LONG_TIMEOUT_MS])

    async def copies(self) -> None:
        """Copy until it is cancelled."""
        while True:
            self.sessions += 1
            with suppress(KafkaError):  # fenced, or a broker that is away for too long
                await self._copies_in_a_session()
            await pass_time(self._random.choice([0.02, 0.5]))

    async def _copies_in_a_session(self) -> None:
        async with TransactionalSession(
            INPUT[0],
            bootstrap_servers=self._bootstrap,
            group_id=COPIERS,
            transactional_id="copier",
            max_records=self._max_records,
            consumer={"session_timeout_ms": _SESSION_MS, "heartbeat_interval_ms": _SESSION_MS // 3},
            producer={"transaction_timeout_ms": self._transaction_timeout_ms},
        ) as session:
            async for batch in session:
                async with batch:
                    for record in batch:
                        await self._think()
                        await batch.send(COPIES[0], record.value, timestamp_ms=1)
                    await self._think()
                self.commits += batch.committed
                self.aborts += not batch.committed
                await self._think()
                if not self.hurries and self._random.random() < 0.03:
                    return

    async def _think(self) -> None:
        if self.hurries:
            return
        (thinking_ms,) = self._random.choices(_THINKING_MS, _THINKING_WEIGHTS)
        await pass_time(thinking_ms / 1000)
