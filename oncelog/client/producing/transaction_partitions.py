"""The partitions of a producer's open transaction.

Owns: which are in it, and adding those that the sender wants to write to. Does not own: whether the transaction takes
records (`transaction_manager`), the request (`transaction_requests`). Invariant: a partition counts as added only after
the coordinator confirmed it, or when the next Produce request adds it (transaction.version 2).
"""

import asyncio
from collections.abc import Callable

from oncelog.client.producing.transaction_requests import TransactionRequests, refusal, unanswered
from oncelog.client.values.errors import KafkaError, error_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.protocol.errors import ErrorCode

_MAY_COME_LATER = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
)


class TransactionPartitions:
    def __init__(
        self,
        requests: TransactionRequests,
        *,
        delivery_timeout_ms: float,
        retry_backoff_ms: float,
        on_added: Callable[[], None],
        on_failed: Callable[[KafkaError], object],
    ) -> None:
        self._requests = requests
        self._delivery_timeout_ms = delivery_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._on_added = on_added
        self._on_failed = on_failed
        self._added: set[TopicPartition] = set()
        self._wanted: dict[TopicPartition, None] = {}
        self._adding: asyncio.Task[None] | None = None

    @property
    def is_empty(self) -> bool:
        return not self._added

    def may_write(self, topic_partition: TopicPartition) -> bool:
        """Whether it is in the transaction; if not, it is added, and `on_added` called then."""
        if topic_partition in self._added:
            return True
        if self._requests.is_second_protocol:
            # The Produce request adds the partition; whether it arrived is not known when it is lost.
            self._added.add(topic_partition)
            return True
        self._wanted[topic_partition] = None
        if self._adding is None:
            self._adding = asyncio.ensure_future(self._add())
        return False

    def clear(self) -> None:
        """A new transaction begins."""
        self._added.clear()
        self._wanted.clear()

    async def settle(self, timeout_s: float) -> None:
        """Add no more, and wait for a pending response for a limited time, since it may open the transaction."""
        adding = self._adding
        if adding is None:
            return
        asked = list(self._wanted)
        await asyncio.wait((adding,), timeout=timeout_s)
        if not adding.done():
            await self.close()
            self._added.update(asked)
            self._requests.on_lost()

    async def close(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.gather(self._adding, return_exceptions=True)

    async def _add(self) -> None:
        deadline = Deadline.after(self._delivery_timeout_ms)
        try:
            while self._wanted:
                wanted = list(self._wanted)
                code = await self._requests.add_partitions(wanted, deadline)
                if code in _MAY_COME_LATER:
                    await deadline.pause(self._retry_backoff_ms, "ADD_PARTITIONS_TO_TXN", error_for(code))
                elif code:
                    self._on_failed(refusal(code))
                    return
                else:
                    for each in wanted:
                        del self._wanted[each]
                    self._added.update(wanted)
                    self._on_added()
        except KafkaError as error:
            self._on_failed(unanswered(error) if error.retriable else error)
        finally:
            self._adding = None
