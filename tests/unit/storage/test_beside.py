"""Statements beside rounds: an error that says that nothing has happened can be relied on."""

from random import Random

import pytest

from oncelog.broker.log.store import StoreError
from oncelog.broker.storage.shared.beside import Beside
from oncelog.broker.storage.shared.room import RETRY_MS, Room
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import MoveStarts
from tests.fakes.database import Database
from tests.fakes.logs import TOPIC_ID
from tests.fakes.tables import End, FakeTables
from tests.fakes.virtual_time import VirtualTime

_MOVED = MoveStarts(0, {(TOPIC_ID, 0): 5})


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_was_refused_after_an_answer_was_lost_is_not_taken_for_what_has_not_happened(is_lost: bool) -> None:
    """The first try may have happened: a caller that got an error would assume that nothing has changed."""
    database, time, failures = Database(), VirtualTime(), list[OSError]()
    tables = FakeTables(database, time, time, Random(0), takes_time=False)
    beside = Beside(Statements(tables, time, time), time, Room(1_000, time), failures.append)
    if is_lost:
        tables.writes_left, tables.end = 0, End.LOST
    else:
        tables.refused = (MoveStarts,)
    written = beside.write(lambda: _MOVED, is_repeated=False)
    time.settle()
    assert bool(database.starts) == is_lost
    tables.writes_left, tables.refused = None, (MoveStarts,)
    time.advance(10 * RETRY_MS)
    tables.refused = ()
    time.advance(10 * RETRY_MS)
    assert isinstance(written.error, StoreError) == (not database.starts) == (not is_lost)
    assert failures == []
