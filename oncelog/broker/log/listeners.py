"""The listeners of a partition's log: the layers above it are notified in the turn in which something happens."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from oncelog.broker.log.partition_log import PartitionLog


class PartitionListener(Protocol):
    """A listener for those who wait for records of the log (`broker.fetching.purgatory`)."""

    def on_high_watermark(self, log: "PartitionLog") -> None:
        """The high watermark has advanced, and possibly the last stable offset."""

    def on_log_start_offset(self, log: "PartitionLog") -> None:
        """The log start offset has advanced, and possibly the last stable offset."""


class LogKeeper(Protocol):
    """The owner of a log, which is notified when it cannot be used any more (`LogManager`)."""

    def on_offline(self, log: "PartitionLog", problem: str) -> None:
        """It cannot be used any more; called once, for a log that was usable when it was opened."""

    def on_lost(self, log: "PartitionLog") -> None:
        """Another node leads the partition."""
