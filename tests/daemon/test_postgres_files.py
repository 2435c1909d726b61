"""`oncelog log` beside a real broker over PostgreSQL, and brokers that continue from what it has written."""

import os
import threading
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.sync import Producer
from oncelog.testing import Broker
from tests.support.patience import until
from tests.support.postgres.server import Postgres

pytestmark = pytest.mark.postgres

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_schemas = count()
_TRANSACTIONS = 40
_MOST_COPIES = 8
"""Enough that some come while it produces; each is looked at by a broker."""


@pytest.fixture
def schema() -> str:
    return f"files_{os.getpid()}_{next(_schemas)}"


def log(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, ["log", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def broker_over(dsn: str, schema: str) -> Broker:
    return Broker(
        storage=dsn,
        config={"oncelog.postgres.schema": schema, "oncelog.postgres.checkpoint.bytes": 1_000},
    )


def values(broker: Broker) -> list[bytes]:
    return sorted(record.value or b"" for record in broker.records("topic"))


def until_whole(broker: Broker) -> None:
    """The start ends what was decided: each transaction is there in all four partitions then, or in none."""
    until(lambda: set(Counter(values(broker)).values()) <= {4})


def test_a_broker_continues_while_it_is_read_and_copies_have_whole_transactions(
    postgres: Postgres, schema: str, tmp_path: Path
) -> None:
    """Each look beside a broker that moves rounds into chunks all the time is whole, each export has some transactions
    and no half of one, and a broker over files, and one over what was imported, continue from the last.
    """
    with broker_over(postgres.dsn, schema) as broker:
        broker.create_topic("topic", partitions=4)

        def produce() -> None:
            with Producer(broker.bootstrap_servers, transactional_id="writer") as producer:
                for number in range(_TRANSACTIONS):
                    with producer.transaction() as transaction:
                        for partition in range(4):
                            transaction.send("topic", b"%d" % number, partition=partition)

        producing = threading.Thread(target=produce)
        producing.start()
        copies = 0
        while copies < _MOST_COPIES and (producing.is_alive() or not copies):
            log("verify", postgres.dsn, "--schema", schema)
            log("export", postgres.dsn, tmp_path / f"copy-{copies}", "--schema", schema)
            copies += 1
        producing.join()
        for number in range(copies):
            log("verify", tmp_path / f"copy-{number}")
        log("export", postgres.dsn, tmp_path / "last", "--schema", schema)
        wanted = values(broker)
        assert len(wanted) == 4 * _TRANSACTIONS
    for number in range(copies):
        with Broker(storage=tmp_path / f"copy-{number}") as of_files:
            until_whole(of_files)
    with Broker(storage=tmp_path / "last") as of_files:
        assert values(of_files) == wanted
        of_files.produce("topic", b"later")
        later = values(of_files)
        of_files.stop()
    log("import", tmp_path / "last", postgres.dsn, "--schema", f"{schema}_again")
    with broker_over(postgres.dsn, f"{schema}_again") as again:
        assert values(again) == later
        again.produce("topic", b"last of all")
        assert values(again) == sorted([*later, b"last of all"])
