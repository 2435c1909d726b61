"""Who learns what happens to the log of a partition: the layers above it, in the turn in which it happens."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog


class PartitionListener(Protocol):
    """Who waits for what the log holds (`broker.fetching.purgatory`)."""

    def on_high_watermark(self, log: "PartitionLog") -> None:
        """The high watermark has advanced, and possibly the last stable offset."""

    def on_log_start_offset(self, log: "PartitionLog") -> None:
        """The log start offset has advanced, and possibly the last stable offset."""


class LogKeeper(Protocol):
    """Who has opened a log, and learns what becomes of it (`LogManager`)."""

    def on_offline(self, log: "PartitionLog", problem: str) -> None:
        """It cannot be used any more; called once, for a log that was usable when it was opened."""

    def on_lost(self, log: "PartitionLog") -> None:
        """Another node leads the partition."""
