"""Each record is processed once and in order by instances that keep the offsets in their own transactions, whatever
happens between reading, writing and committing."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.sql_offsets import BlockingSqlBatch
from tests.fakes.partitions_to_read import NothingToRead, Partition
from tests.support.postgres.sql_instances import OTHER, PLACE, Database, Instance, write
from tests.support.postgres.sql_ways import now
from tests.support.samples import examples


class Failed(Exception):
    """Something of the program failed in its transaction."""


def life(instance: Instance) -> Generator[None, str, None]:
    """An instance that stops between any two steps, and is sent how its transaction ends. To close it is a kill."""
    outcome = yield
    while True:
        with suppress(NothingToRead, Failed, sqlite3.OperationalError):  # locked out
            batch = BlockingSqlBatch(now(instance.next()))
            yield
            with instance.database() as connection, batch:
                with connection:
                    batch.advance(connection)
                    yield
                    write(connection, batch[:1])
                    yield
                    write(connection, batch[1:])
                    outcome = yield
                    if outcome == "fails":
                        raise Failed
                if outcome == "commits and does not know":
                    raise Failed
        yield


PLACES = (PLACE, OTHER)
OUTCOMES = ("commits", "commits", "fails", "commits and does not know")
EVENTS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(PLACES), st.booleans()),
    st.tuples(st.just("assign"), st.integers(0, 2), st.sets(st.sampled_from(PLACES))),
    st.tuples(st.just("kill"), st.integers(0, 2), st.none()),
    *[st.tuples(st.just("step"), st.integers(0, 2), st.sampled_from(OUTCOMES))] * 4,
)


@settings(max_examples=examples(100))
@given(st.lists(EVENTS, min_size=60, max_size=300))
def test_whatever_instances_do_each_record_is_processed_once_and_in_order(
    events: Sequence[tuple[str, Any, Any]],
) -> None:
    """Instances with the same partitions read, write, commit, fail and are killed in any order."""
    with TemporaryDirectory() as directory:
        database = Database(Path(directory) / "results.db")
        logs = {place: Partition(*(b"%d" % offset for offset in range(5))) for place in PLACES}
        instances = [Instance(database, logs) for _ in range(3)]
        lives = [life(each) for each in instances]
        for each in lives:
            next(each)
        for event, at, how in events:
            if event == "append":
                logs[at].values.append(b"%d" % logs[at].end if how else None)
            elif event == "assign":
                instances[at].consumer.assign(how)
            elif event == "kill":
                lives[at].close()
                instances[at] = Instance(database, logs)
                lives[at] = life(instances[at])
                next(lives[at])
            else:
                lives[at].send(how)
        for each in lives:
            each.close()
        now(Instance(database, logs).process_all())
        for place in PLACES:
            assert database.results(place.partition) == [value for _, value in logs[place].visible()]
