"""Two nodes over one database, as one broker that is killed and started again: the other takes over meanwhile."""

from pathlib import Path

from tests.outbox.proof.ledger import connected
from tests.support.daemon import Daemon
from tests.support.proofs import pause

_LOOK_S = 0.02
_NUMBERS = (1, 2)


class Nodes:
    def __init__(self, directory: Path, dsn: str, *settings: str) -> None:
        self._dsn = dsn
        self._killed = _NUMBERS[0]
        self._nodes = {
            number: Daemon(
                directory / f"node-{number}",
                *(f"node.id={number}", "oncelog.postgres.lease.ms=3000", *settings),
                storage=("--storage", dsn),
            )
            for number in _NUMBERS
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self._nodes.values())

    def kill(self) -> None:
        """The one that leads, as soon as the other stands by."""
        self._killed = self._leader()
        while not self._stands_by(self._other):
            pause(_LOOK_S)
        self._nodes[self._killed].kill()

    def start(self) -> None:
        """What was killed, once the other leads."""
        while self._leader() != self._other:
            pause(_LOOK_S)
        self._nodes[self._killed].start()

    def end(self) -> None:
        for node in self._nodes.values():
            node.kill()

    @property
    def _other(self) -> int:
        return sum(_NUMBERS) - self._killed

    def _leader(self) -> int:
        return int(self._asked("select node_id from oncelog.oncelog_lease"))

    def _stands_by(self, number: int) -> bool:
        question = f"select exists (select from oncelog.oncelog_node where node_id = {number} and followed >= 0)"
        return bool(self._asked(question))

    def _asked(self, question: str) -> object:
        with connected(self._dsn) as connection:
            return connection.execute(question).fetchone()[0]
