"""Apache Kafka's own decoders read our transaction log, our metadata log, and the state of share-partitions."""

import os
import subprocess
from itertools import groupby
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from oncelog.broker.coordinator.share.values import SharePartitionKey, StateBatch
from oncelog.cli import main
from tests.fakes.share_coordinator import Coordinating
from tests.support.kafka.dumps import rows_of_kafka, rows_of_ours
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES, Daemon

pytestmark = [pytest.mark.kafka, LOOKS_AT_FILES]


def dump(path: Path, decoder: str) -> str:
    command = ["java", "-cp", f"{os.environ['ONCELOG_KAFKA_LIBS']}/*", "org.apache.kafka.tools.DumpLogSegments"]
    dumped = subprocess.run(
        [*command, decoder, "--files", str(path)], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return dumped.stdout


def test_kafka_reads_the_life_of_a_transaction_and_the_topics(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data")
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "decoded"})
    producer.init_transactions(PATIENCE_S)
    for commit in (True, False):
        producer.begin_transaction()
        producer.produce("orders", b"value")
        producer.flush(PATIENCE_S)
        if commit:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    assert daemon.stop() == 0
    (directory,) = (tmp_path / "data").glob("__transaction_state-*")
    log = dump(directory / f"{0:020}.log", "--transaction-log-decoder")
    states = [part.split(",")[0] for part in log.split('"transactionStatus":')[1:]]
    # Empty, Ongoing, PrepareCommit, CompleteCommit, Ongoing, PrepareAbort, CompleteAbort; a client that has waited for
    # long repeats itself.
    assert [state for state, _ in groupby(states)] == ["0", "1", "2", "4", "1", "3", "5"]
    assert log.count('"transactionalId":"decoded"') == len(states)
    metadata = dump(tmp_path / "data" / "__cluster_metadata-0" / f"{0:020}.log", "--cluster-metadata-decoder")
    for expected in ('"type":"TOPIC_RECORD"', '"name":"orders"', '"type":"PRODUCER_IDS_RECORD"', "cluster.id"):
        assert expected in metadata


def test_kafka_reads_the_state_of_share_partitions_as_we_do(tmp_path: Path) -> None:
    at = Coordinating()
    key = SharePartitionKey("grüppe", UUID(int=1), 1)
    at.coordinator.initialize(key, 3, -1)
    at.coordinator.write(key, 3, 0, 5, 2, [StateBatch(5, 9, 2, 1), StateBatch(12, 12, 0, 3)])
    at.coordinator.write(key, 3, 0, -1, -1, ())
    at.coordinator.initialize(key, 4, 7)
    at.coordinator.delete(key)
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batch for _, batch in at.log.batches()))
    kafkas = dump(path, "--share-group-state-decoder")
    for part in (
        '"type":"0","data":{"groupId":"grüppe","topicId":"AAAAAAAAAAAAAAAAAAAAAQ","partition":1}',
        '"type":"1","data":{"groupId":"grüppe"',
        '"stateBatches":[{"firstOffset":5,"lastOffset":9,"deliveryState":2,"deliveryCount":1},'
        '{"firstOffset":12,"lastOffset":12,"deliveryState":0,"deliveryCount":3}]',
        '"deliveryCompleteCount":2',
        "<DELETE>",
    ):
        assert part in kafkas
    ours = CliRunner().invoke(main, ["log", "dump", "--share-group-state-decoder", "--json", "--files", str(path)])
    assert ours.exit_code == 0, ours.stderr
    assert list(rows_of_ours(ours.stdout)) == list(rows_of_kafka(kafkas))
