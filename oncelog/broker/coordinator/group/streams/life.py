"""What a broker remembers of one streams group until it restarts or another node coordinates the group.

Owns: the topics that the topology was last found to need, the delay before the first assignment, the request to shut
the application down, and the version of the members' endpoints. Does not own: durable state (`group`), sessions
(`engine.sessions`).
Invariant: after `end` no timer runs.

KIP-1071. As in Kafka, none of this is logged: a restart determines the topics again, and forgets the rest.
"""

from collections.abc import Callable

from oncelog.broker.coordinator.group.engine.deadline import Deadline
from oncelog.broker.coordinator.group.streams.internal_topics import ConfiguredTopology
from oncelog.broker.turns.ports import Clock, Scheduler


class StreamsGroupLife:
    def __init__(self, clock: Clock, scheduler: Scheduler, on_delay_over: Callable[[], None]) -> None:
        self.configured: ConfiguredTopology | None = None
        self.shutdown_requested_by: str | None = None
        self.endpoint_epoch = 0
        self.is_delayed = False
        """Whether the first assignment waits for more members."""
        self._on_delay_over = on_delay_over
        self._delay = Deadline(clock, scheduler, self._end_delay)

    def delay(self, delay_ms: int) -> None:
        """Wait for more members, unless that has begun already."""
        if not self.is_delayed:
            self.is_delayed = True
            self._delay.set(delay_ms)

    def request_shutdown(self, member_id: str) -> None:
        if self.shutdown_requested_by is None:
            self.shutdown_requested_by = member_id

    def end(self) -> None:
        self.is_delayed = False
        self._delay.clear()

    def _end_delay(self) -> None:
        self.is_delayed = False
        self._on_delay_over()
