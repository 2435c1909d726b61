"""A share coordinator in memory: what each offset's state is, and whether the next write is refused or waits."""

from collections.abc import Sequence

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


class _Share:
    def __init__(self, state_epoch: int, start_offset: int) -> None:
        self.state_epoch = state_epoch
        self.leader_epoch = 0
        self.start_offset = start_offset
        self.complete_count = 0
        self.offsets: dict[int, tuple[int, int]] = {}
        """The state and the delivery count of each offset that was written."""


class FakeShareStates:
    """A SharePersister."""

    def __init__(self) -> None:
        self.shares: dict[SharePartitionKey, _Share] = {}
        self.refusal: ErrorCode | None = None
        """The error with which every request is refused, if any."""
        self.is_slow = False
        """Whether nothing becomes durable until `end_writes`."""
        self.write_count = 0
        self._pending: list[Completion[None]] = []

    def initialize(self, key: SharePartitionKey, state_epoch: int = 0, start_offset: int = 0) -> None:
        self.shares[key] = _Share(state_epoch, start_offset)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> Completion[ShareState]:
        share = self.shares.get(key)
        if self.refusal is not None or share is None:
            return Completion.failed(KafkaError(self.refusal or ErrorCode.INVALID_REQUEST, "refused"))
        share.leader_epoch = leader_epoch
        batches = [
            StateBatch(offset, offset, *state)
            for offset, state in sorted(share.offsets.items())
            if offset >= share.start_offset
        ]
        return Completion.of(
            ShareState(share.state_epoch, leader_epoch, share.start_offset, share.complete_count, tuple(batches))
        )

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Completion[None]:
        share = self.shares.get(key)
        if self.refusal is not None or share is None:
            return Completion.failed(KafkaError(self.refusal or ErrorCode.GROUP_ID_NOT_FOUND, "refused"))
        if state_epoch != share.state_epoch or leader_epoch != share.leader_epoch:
            return Completion.failed(KafkaError(ErrorCode.FENCED_STATE_EPOCH, "fenced"))
        self.write_count += 1
        share.start_offset, share.complete_count = start_offset, delivery_complete_count
        for first, last, state, count in batches:
            share.offsets.update(dict.fromkeys(range(first, last + 1), (state, count)))
        if not self.is_slow:
            return Completion.of(None)
        self._pending.append(Completion())
        return self._pending[-1]

    def end_writes(self, error: KafkaError | None = None) -> None:
        pending, self._pending = self._pending, []
        for written in pending:
            if error is None:
                written.complete(None)
            else:
                written.fail(error)

    def states(self, key: SharePartitionKey) -> dict[int, tuple[int, int]]:
        """The state and the delivery count of each offset that was written."""
        return self.shares[key].offsets
