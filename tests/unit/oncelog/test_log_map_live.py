"""`oncelog log map` and `dump` over the files of a broker that is writing them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Producer

from oncelog.cli import main
from tests.support.patience import PATIENCE_S, until
from tests.support.processes.daemon import Daemon

TRANSACTIONS = 30
RECORDS = 40


def look(partition: Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["log", "map", str(partition), "--json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_looking_while_a_broker_writes_sees_a_log_that_only_grows(start_daemon: Callable[..., Daemon]) -> None:
    """A torn end is never taken for damage, and in the end each transaction is committed or aborted as it was."""
    daemon = start_daemon()
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "live", "batch.num.messages": 5})
    producer.init_transactions(PATIENCE_S)
    partition = daemon.data_dir / "live-0"
    log_end_offset = 0
    for number in range(TRANSACTIONS):
        producer.begin_transaction()
        for record in range(RECORDS):
            producer.produce("live", b"%d" % record, partition=0)
        producer.poll(0)
        if number % 3 == 2:
            # The producer's own thread keeps sending meanwhile.
            summary, *_ = look(partition)
            offsets = [summary[name] for name in ("last_stable_offset", "high_watermark", "log_end_offset")]
            assert offsets == sorted(offsets)
            assert log_end_offset <= offsets[-1]
            log_end_offset = offsets[-1]
        producer.flush(PATIENCE_S)
        if number % 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
    until(lambda: (found := look(partition)[0])["last_stable_offset"] == found["log_end_offset"])
    states = [entry["state"] for entry in look(partition) if entry["kind"] == "batch"]
    assert states.count("commit_marker") == TRANSACTIONS // 2
    assert set(states) <= {"committed", "aborted", "commit_marker", "abort_marker"}
    committed = sum(
        entry["record_count"] for entry in look(partition) if entry["kind"] == "batch" and entry["state"] == "committed"
    )
    assert committed == TRANSACTIONS // 2 * RECORDS
    dumped = CliRunner().invoke(main, ["log", "dump", str(partition)])
    assert dumped.exit_code == 0, dumped.output
