"""A read-only broker (`oncelog.read.only`): the machine on which nothing is written and no time is counted.

Owns: what of a machine and of the coordinators stays still. Does not own: what requests are answered
(`broker.handlers.read_only`), the settings that follow (`broker.config.settings`), the turn in the background
(`broker.daemon.running`).
Invariants
- Nothing on the disk changes, not even by recovery, whose results are in memory (`OverlayDisk`).
- What is stored stays as it is while it is looked at: no transaction ends, neither by its timeout nor by the markers
  that a PREPARE still lacks, no member or group expires.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oncelog.broker.coordinator.transaction.metadata import TopicPartition
from oncelog.broker.log.values import EndMarker
from oncelog.broker.storage.local.overlay_disk import OverlayDisk
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Scheduler, Timer
from oncelog.protocol.errors import ErrorCode


def over_disk(system: System) -> System:
    """Return the machine with a disk that is never written."""
    return system if system.disk is None else replace(system, disk=OverlayDisk(system.disk))


def without_timers(system: System) -> System:
    """Return the machine without timers, for the coordinators, which measure time by them alone."""
    return replace(system, scheduler=_NoTimers(system.scheduler))


@dataclass(frozen=True, slots=True)
class _NoTimers:
    scheduler: Scheduler

    def call_soon(self, function: Callable[[], None]) -> None:
        self.scheduler.call_soon(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> Timer:
        return _Stopped()

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.scheduler.run_in_thread(function, done)

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.scheduler.run_beside(function, done)


class _Stopped:
    def cancel(self) -> None:
        return


class HeldMarkers:
    """Markers that never arrive: a transaction that was decided stays prepared."""

    def append(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition], prepared: Completion[Any]
    ) -> list[ErrorCode] | None:
        return None

    def send(
        self, node_id: int, marker: EndMarker, partitions: Sequence[TopicPartition]
    ) -> Completion[list[ErrorCode]]:
        return Completion()

    def without_response(self, producer_id: int, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        return list(partitions)
