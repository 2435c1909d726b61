"""The ports of share groups: the states of their share-partitions, and the settings.

Owns: the ports. Does not own: the states (`broker.coordinator.share`), what is in flight (`broker.sharing`), the values
of settings (`broker.assembly.group_settings`).
"""

from typing import Protocol

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState
from oncelog.broker.turns.completion import Completion


class ShareStates(Protocol):
    """The share coordinator, as the group coordinator needs it. What it accepts takes effect in this turn, and
    completes once it is durable; what it refuses has failed already with a KafkaError, and nothing has changed."""

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Completion[None]:
        """Begin the state of a share-partition again; a start offset of -1 is decided by the first reader."""

    def delete(self, key: SharePartitionKey) -> Completion[None]:
        """Delete the state; no error if there is none."""

    def summary(self, key: SharePartitionKey, leader_epoch: int) -> Completion[ShareState]:
        """Return the state without its batches."""


class ShareGroupSettings(Protocol):
    """The settings as of now."""

    @property
    def is_enabled(self) -> bool:
        """Whether the finalized feature share.version is 1."""

    @property
    def assignor(self) -> str:
        """The only assignor, in Kafka as well."""

    @property
    def max_size(self) -> int: ...

    @property
    def max_share_sessions(self) -> int: ...

    @property
    def initialize_retry_interval_ms(self) -> int: ...

    def session_timeout_ms(self, group_id: str) -> int: ...

    def heartbeat_interval_ms(self, group_id: str) -> int: ...

    def assignment_interval_ms(self, group_id: str) -> int: ...

    def record_lock_duration_ms(self, group_id: str) -> int: ...

    def delivery_count_limit(self, group_id: str) -> int: ...

    def partition_max_record_locks(self, group_id: str) -> int: ...

    def isolation_level(self, group_id: str) -> str:
        """Return `read_committed` or `read_uncommitted`."""

    def auto_offset_reset(self, group_id: str) -> str:
        """Return what `broker.config.offset_reset` reads."""

    def renew_acknowledge_enable(self, group_id: str) -> bool: ...
