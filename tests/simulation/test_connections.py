"""The memory of connections in simulation: counted, bounded, given back, and those that behave are served."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict

import pytest

from oncelog.broker.net import memory
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.memory import RequestMemory
from oncelog.broker.net.open_connections import OpenConnections
from tests.history.auditor import require_at_least
from tests.simulation.connection_world import ConnectionWorld
from tests.simulation.log_auditor import AuditError

STEPS = 150
Plant = Callable[[pytest.MonkeyPatch], None]


def test_memory_is_counted_bounded_and_given_back_whatever_clients_do() -> None:
    counts: Counter[str] = Counter()
    for seed in range(6):
        counts.update(asdict(ConnectionWorld(seed).run(STEPS)))
    # Lives in which memory is never short would prove nothing.
    require_at_least(counts, served=40, closed=50, short_looks=20, unread_looks=20)


def forget_what_waits_to_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("oncelog.broker.net.connection._buffer_bytes", lambda frame: 0)


def forget_answers_behind_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Connection, "_on_done", lambda self, exchange: self._pump_soon())


def never_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OpenConnections, "_start_memory_checks", lambda self: None)


def let_everybody_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequestMemory, "_must_wait", lambda self, reader, account: False)
    patch.setattr(memory._Ledger, "close_above_allowance", lambda self: None)


def wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequestMemory, "_wake", lambda self: None)
    patch.setattr(RequestMemory, "_probe", lambda self: None)


def give_nothing_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RequestMemory, "forget", lambda self, reader: None)


@pytest.mark.parametrize(
    "plant",
    [
        forget_what_waits_to_start,
        forget_answers_behind_another,
        never_look,
        let_everybody_read,
        wake_nobody,
        give_nothing_back,
    ],
    ids=lambda plant: plant.__name__,
)
@pytest.mark.interpreted
def test_a_planted_fault_is_caught_within_ten_seeds(plant: Plant) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AuditError):
        plant(patch)
        for seed in range(10):
            ConnectionWorld(seed).run(STEPS)
