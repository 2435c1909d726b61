"""Brokers over one schema, of which one leads: as one broker that is killed and started again, another takes over."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support.patience import until
from tests.support.processes.daemon import Daemon

LEASE_MS = 3_000
"""Some nodes sleep past it."""
SETTING = f"oncelog.postgres.lease.ms={LEASE_MS}"


@dataclass
class Nodes:
    ask: Callable[[str], Any]
    """The schema: returns the first value that the statement answers, if it answers any."""
    brokers: list[Daemon] = field(default_factory=list)
    """In the order of their node ids."""
    _killed: Daemon | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(each.bootstrap for each in self.brokers)

    @property
    def leader(self) -> Daemon:
        alone = len(self.brokers) == 1
        return self.brokers[0 if alone else self.ask("select node_id from oncelog_lease") - 1]

    @property
    def standbys(self) -> list[Daemon]:
        leader = self.leader
        return [each for each in self.brokers if each is not leader]

    def await_standbys(self) -> None:
        """Wait until each node that does not lead could take over."""
        sound = "select count(*) from oncelog_node where followed >= 0 and until > clock_timestamp()"
        until(lambda: self.ask(sound) >= len(self.brokers) - 1)

    def kill(self) -> None:
        """Kill the leader as soon as another node could take over."""
        self.await_standbys()
        self._killed = self.leader
        self._killed.kill()

    def start(self) -> None:
        """Start the killed node again once another leads."""
        until(lambda: self.leader is not self._killed)
        assert self._killed is not None
        self._killed.start()

    def end(self) -> None:
        for broker in self.brokers:
            with suppress(RuntimeError):  # it does not run
                broker.kill()
