"""A coordinator runtime in memory: one shard, a log that is a list, and flushes that happen when the test says so."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from oncelog.broker.completion import Completion
from oncelog.broker.coordinator.runtime import CoordinatorRecord, Shard, WriteResult
from oncelog.protocol.errors import KafkaError

T = TypeVar("T")
ShardT = TypeVar("ShardT", bound=Shard)


class FakeRuntime(Generic[ShardT]):
    """Behaves as `CoordinatorRuntime`; `log` is what was appended, `durable_count` how much of it a crash leaves."""

    topic = "__fake"
    partition_count = 1

    def __init__(
        self,
        make_shard: Callable[[int], ShardT],
        log: Sequence[CoordinatorRecord] = (),
        *,
        flushes_by_itself: bool = True,
    ) -> None:
        self._make_shard = make_shard
        self._shard = make_shard(0)
        self.log = list(log)
        self.durable_count = len(self.log)
        self.flushes_by_itself = flushes_by_itself
        self.refuses: KafkaError | None = None
        """What the next append fails with, once."""
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        for offset, record in enumerate(self.log):
            self._shard.replay(record, offset=offset, producer_id=-1)

    def partition_for(self, key: str) -> int:
        return 0

    def shard(self, key: str) -> ShardT:
        return self._shard

    def check_loaded(self) -> None:
        """Replayed when it was made."""

    def shards(self) -> Iterator[ShardT]:
        yield self._shard

    def write(self, key: str, operation: Callable[[ShardT], WriteResult[T]]) -> Completion[T]:
        try:
            result = operation(self._shard)
            if result.records:
                self._append(result.records)
        except KafkaError as error:
            failed: Completion[T] = Completion()
            failed.fail(error)
            return failed
        return self._released(result.response)

    def read(self, key: str, operation: Callable[[ShardT], T]) -> Completion[T]:
        return self.write(key, lambda shard: WriteResult((), operation(shard)))

    def _append(self, records: Sequence[CoordinatorRecord]) -> None:
        refusal, self.refuses = self.refuses, None
        if refusal is not None:
            raise refusal
        for record in records:
            self.log.append(record)
            self._shard.replay(record, offset=len(self.log) - 1, producer_id=-1)

    def _released(self, response: T) -> Completion[T]:
        answer: Completion[T] = Completion()
        self._waiting.append((len(self.log), lambda: answer.complete(response)))
        if self.flushes_by_itself or len(self.log) <= self.durable_count:
            self.flush()
        return answer

    def flush(self) -> None:
        """All that is in the log now is durable; whoever waited for that goes on, in order."""
        self.durable_count = len(self.log)
        ready = [release for next_offset, release in self._waiting if next_offset <= self.durable_count]
        self._waiting = [entry for entry in self._waiting if entry[0] > self.durable_count]
        for release in ready:
            release()

    def restarted(self, record_count: int | None = None) -> "FakeRuntime[ShardT]":
        """After a crash that left so many records: at least the durable ones, by default no more."""
        kept = self.durable_count if record_count is None else record_count
        return FakeRuntime(self._make_shard, self.log[:kept], flushes_by_itself=self.flushes_by_itself)
