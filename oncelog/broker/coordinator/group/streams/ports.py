"""The settings of streams groups, as a port.

Owns: the port. Does not own: the values (`broker.assembly.group_settings`).
"""

from typing import Protocol


class StreamsGroupSettings(Protocol):
    """The settings as of now."""

    @property
    def is_enabled(self) -> bool:
        """Whether the finalized feature streams.version is 1."""

    @property
    def max_size(self) -> int: ...

    def session_timeout_ms(self, group_id: str) -> int: ...

    def heartbeat_interval_ms(self, group_id: str) -> int: ...

    def assignment_interval_ms(self, group_id: str) -> int: ...

    def initial_rebalance_delay_ms(self, group_id: str) -> int: ...

    def standby_replicas(self, group_id: str) -> int: ...
