"""The current settings: those the broker was started with, and later changes.

Owns: `current`, and changing settings: written to the metadata log and effective in the same turn. Does not own: the
verdict on a change (`broker.config.changes`), the log of changes (`broker.cluster.metadata_log`). Invariant: `current`
is the combination of the metadata log and the start's settings, also after a restart. KIP-226.
"""

from collections.abc import Callable, Mapping

from oncelog.broker.cluster.metadata_log import MetadataLog, ResourceType
from oncelog.broker.completion import Completion
from oncelog.broker.config.settings import BrokerConfig


class LiveConfig:
    def __init__(self, started_with: BrokerConfig, metadata: MetadataLog, node_id: int) -> None:
        self._started_with = started_with
        self._metadata = metadata
        self.node_id = node_id
        """Whose settings these are."""
        self._watchers: list[Callable[[int, str], None]] = []
        self.current = self._resolved()

    def watch(self, on_change: Callable[[int, str], None]) -> None:
        """Call `on_change(resource_type, name)` whenever settings of a resource have changed, in that turn."""
        self._watchers.append(on_change)

    def change(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Completion[None]:
        """Set, or with None unset; effective at once, completes once durable. The changes must be valid."""
        written = self._metadata.set_config(resource_type, name, changes)
        if written.error is not None:
            return written
        if resource_type == ResourceType.BROKER:
            self.current = self._resolved()
        for on_change in self._watchers:
            on_change(resource_type, name)
        return written

    def _resolved(self) -> BrokerConfig:
        state = self._metadata.state
        return self._started_with.with_dynamic(
            state.config(ResourceType.BROKER, ""), state.config(ResourceType.BROKER, str(self.node_id))
        )
