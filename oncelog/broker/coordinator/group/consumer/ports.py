"""The settings of consumer groups, as a port.

Owns: the port. Does not own: the values (`broker.assembly.group_settings`).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: which groups with members may change their protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


class ConsumerGroupSettings(Protocol):
    """The settings as of now."""

    @property
    def is_enabled(self) -> bool:
        """Whether the finalized feature group.version is 1."""

    @property
    def assignors(self) -> Sequence[str]:
        """The assignors, the default first."""

    @property
    def max_size(self) -> int: ...

    @property
    def classic_max_size(self) -> int: ...

    @property
    def migration_policy(self) -> MigrationPolicy: ...

    def session_timeout_ms(self, group_id: str) -> int: ...

    def heartbeat_interval_ms(self, group_id: str) -> int: ...

    def assignment_interval_ms(self, group_id: str) -> int: ...
