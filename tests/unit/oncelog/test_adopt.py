"""`oncelog adopt` without Kafka: what it reports, what it refuses, and that it never changes what it reads."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.security.scram import SCRAM_MECHANISMS
from oncelog.broker.storage.local.data_directory import ADOPTED
from oncelog.broker.system.disk import RealDisk
from oncelog.cli import main
from oncelog.protocol.acls import AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.access_control_entry_record import AccessControlEntryRecord
from oncelog.protocol.generated.client_quota_record import ClientQuotaRecord, EntityData
from oncelog.protocol.generated.config_record import ConfigRecord
from oncelog.protocol.generated.delegation_token_record import DelegationTokenRecord
from oncelog.protocol.generated.describe_acls_request import DescribeAclsRequest
from oncelog.protocol.generated.describe_client_quotas_request import DescribeClientQuotasRequest
from oncelog.protocol.generated.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.partition_change_record import PartitionChangeRecord
from oncelog.protocol.generated.producer_ids_record import ProducerIdsRecord
from oncelog.protocol.generated.remove_topic_record import RemoveTopicRecord
from oncelog.protocol.generated.topic_record import TopicRecord
from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord
from oncelog.tools.graduate.graduation import Watcher, graduate
from oncelog.tools.kafka_directory.metadata import read_metadata
from tests.clients.fetch_session import create
from tests.clients.sasl_connection import SaslServer
from tests.clients.scram_client import ScramClient, keys
from tests.fakes.broker import VirtualBroker
from tests.support.kafka.directories import (
    ABORT,
    BEGIN,
    DIRECTORY_ID,
    END,
    encoded,
    fingerprint,
    metadata_batch,
    partition_on,
    recorded,
    topic_with,
    write_kafka_dir,
    write_meta,
    write_partition,
)
from tests.support.logs.damage import TOPIC, fill, produce, read_committed
from tests.support.logs.data_directories import load, store
from tests.support.logs.graduation import wish_for
from tests.support.requests.hostile import HOSTILE, require_harmless

ID = UUID("11111111-1111-4111-9111-111111111111")
OTHER_ID = UUID("33333333-3333-4333-a333-333333333333")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["adopt", *map(str, arguments)])


def rows_of(result: Result) -> dict[str, tuple[int, str]]:
    """Count and fate, by what it is about."""
    rows = json.loads(result.stdout)["rows"]
    return {row["what"]: (row["count"], row["fate"]) for row in rows}


def simple(directory: Path) -> Path:
    """One topic of one partition with three segments, of two records, one and one."""
    records = topic_with("orders", ID, partition_on(ID, 0, [1], 1))
    kafka = write_kafka_dir(directory, [encoded(record) for record in records])
    write_partition(kafka, "orders-0", ID, [b"a", b"b"], [b"c"], [b"d"])
    return kafka


def test_neither_the_adoption_nor_what_is_done_to_it_changes_the_directory_of_kafka(tmp_path: Path) -> None:
    kafka, data = simple(tmp_path / "kafka"), tmp_path / "data"
    before = fingerprint(kafka)
    result = run(kafka, "--out", data)
    assert result.exit_code == 0, result.output
    shared = [path for path in data.rglob("*") if path.is_file() and path.stat().st_nlink > 1]
    assert {path.name for path in shared} == {f"{0:020d}.log", f"{2:020d}.log"}
    disk = RealDisk(data)
    for path in shared:
        for change in (
            lambda file: file.truncate(1),
            lambda file: file.append([b"more"]),
            lambda file: file.write_durably(0, b"x"),
        ):
            change(disk.open(str(path.relative_to(data))))
        assert path.read_bytes()[1:] == b"more"
    disk.close()
    assert fingerprint(kafka) == before


def test_what_graduated_comes_back_with_its_records_transactions_and_sequences(tmp_path: Path) -> None:
    broker = VirtualBroker()
    last = fill(broker, broker.time.wall_ms()).last_batch
    before = read_committed(broker)
    broker.broker.logs.close()
    data, kafka, back = tmp_path / "data", tmp_path / "kafka", tmp_path / "back"
    store(broker.disk, data)
    graduate(wish_for(data, kafka, "127.0.0.1:9092", 9093), Watcher())
    result = run(kafka, "--out", back)
    assert result.exit_code == 0, result.output
    again = VirtualBroker(disk=load(back))
    assert read_committed(again) == before

    assert produce(again, last)[1] == 29  # a retry of the newest batch
    assert again.broker.cluster_id == broker.broker.cluster_id
    assert again.broker.topics.get(TOPIC) is not None


def test_what_share_groups_have_acknowledged_goes_to_kafka_and_comes_back(tmp_path: Path) -> None:
    broker = VirtualBroker("share.coordinator.state.topic.num.partitions=2")
    topic_id = create(broker, TOPIC)
    key = SharePartitionKey("workers", topic_id, 0)
    coordinator = broker.broker.share_coordinator
    begun = coordinator.initialize(key, 0, 0)
    broker.time.settle()
    written = coordinator.write(key, 0, 0, 2, 0, [StateBatch(3, 4, 0, 1)])
    broker.time.settle()
    assert (begun.done, begun.error, written.done, written.error) == (True, None, True, None)
    broker.broker.logs.close()
    data, kafka, back = tmp_path / "data", tmp_path / "kafka", tmp_path / "back"
    store(broker.disk, data)
    listeners = "listeners=PLAINTEXT://127.0.0.1:9092"
    gone = CliRunner().invoke(main, ["graduate", str(data), "--out", str(kafka), "--override", listeners])
    assert re.search(r"partitions of share groups +1 +go along", gone.stdout)
    result = run(kafka, "--out", back, "--json")
    assert rows_of(result)["partitions of share groups"] == (1, "kept")
    again = VirtualBroker(disk=load(back))
    read = again.broker.share_coordinator.read(key, 0)
    again.time.settle()
    assert read.result() == ShareState(0, 0, 2, 0, (StateBatch(3, 4, 0, 1),))


def test_what_one_node_cannot_have_is_reported_before_anything_is_written(tmp_path: Path) -> None:
    elsewhere = UUID(int=7)
    records = [
        *topic_with(
            "orders",
            ID,
            partition_on(ID, 0, [1, 2], 1),
            partition_on(ID, 1, [2, 3], 2),
            partition_on(ID, 2, [1, 2], 2),
            partition_on(ID, 3, [1, 2], 2, [2]),
            partition_on(ID, 4, [1], 1, directories=[elsewhere]),
            partition_on(ID, 5, [1], 1, directories=[DIRECTORY_ID]),
            partition_on(ID, 6, [1, 2], -1, [], eligible_leader_replicas=[1]),
        ),
        ConfigRecord(resource_type=2, resource_name="orders", name="remote.storage.enable", value="true"),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="7"),
        ConfigRecord(resource_type=2, resource_name="orders", name="min.insync.replicas", value="2"),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
        ConfigRecord(resource_type=4, resource_name="3", name="log.cleaner.threads", value="2"),
        ConfigRecord(resource_type=16, resource_name="metrics", name="interval.ms", value="700"),
        AccessControlEntryRecord(id=ID, principal="User:a"),
        ProducerIdsRecord(broker_id=1, next_producer_id=5000),
    ]
    kafka = write_kafka_dir(
        tmp_path / "kafka", [encoded(record) for record in records], directory_id="IiIiIiIiQiKiIiIiIiIiIg"
    )
    for index in (0, 2, 3, 6):
        write_partition(kafka, f"orders-{index}", ID, [b"a"])
    write_partition(kafka, "unknown-0", OTHER_ID, [b"a"])
    for name in ("gone-0.0123-delete", "moving-0.0123-future", "lost-0.0123-stray"):
        (kafka / name).mkdir()
    before = fingerprint(tmp_path)
    result = run(kafka, "--out", tmp_path / "data", "--json")
    assert result.exit_code == 1
    assert "--partial" in result.stderr
    assert fingerprint(tmp_path) == before
    found = rows_of(result)
    assert found == {
        "topics": (1, "kept"),
        "partitions with records": (4, "kept"),
        "settings of topics": (1, "kept"),
        "other settings": (2, "kept"),
        "min.insync.replicas": (1, "left"),
        "next producer id": (5000, "kept"),
        "features": (6, "kept"),
        "ACLs": (1, "kept"),
        "replicas of another leader": (1, "kept"),
        "partitions of other nodes": (1, "missing"),
        "replicas out of sync": (1, "missing"),
        "in another log directory": (1, "missing"),
        "without a directory": (1, "missing"),
        "topics with remote segments": (1, "missing"),
        "unknown partitions": (1, "left"),
        "settings not possible here": (1, "left"),
        "brokers with settings": (1, "left"),
        "directories *-delete": (1, "left"),
        "directories *-future": (1, "left"),
        "directories *-stray": (1, "left"),
    }
    result = run(kafka, "--out", tmp_path / "data", "--partial")
    assert result.exit_code == 0, result.output
    topic = VirtualBroker(disk=load(tmp_path / "data")).broker.topics.get("orders")
    assert topic is not None
    assert (topic.topic_id, topic.partition_count, topic.config) == (ID, 7, {"retention.ms": "7"})


def test_several_directories_of_one_broker_become_one(tmp_path: Path) -> None:
    records = topic_with("orders", ID, partition_on(ID, 0, [1], 1), partition_on(ID, 1, [1], 1))
    one = write_kafka_dir(tmp_path / "one", [encoded(record) for record in records])
    write_partition(one, "orders-0", ID, [b"a"])
    write_meta(tmp_path / "two")
    write_partition(tmp_path / "two", "orders-1", ID, [b"b", b"c"])
    result = run(tmp_path / "two", one, "--out", tmp_path / "data")
    assert result.exit_code == 0, result.output
    broker = VirtualBroker(disk=load(tmp_path / "data"))
    assert [broker.broker.topics.partition("orders", index).log_end_offset for index in (0, 1)] == [1, 2]


def _other_node(kafka: Path) -> None:
    write_meta(kafka.parent / "other", node_id="2")


def _twice(kafka: Path) -> None:
    write_meta(kafka.parent / "other")
    write_partition(kafka.parent / "other", "orders-0", ID, [b"a"])


def _of_zookeeper(kafka: Path) -> None:
    write_meta(kafka, version="0", broker_id="1", node_id="")


def _half_compacted(kafka: Path) -> None:
    (kafka / "orders-0" / f"{0:020d}.log.swap").touch()


def _later_kafka(kafka: Path) -> None:
    log = kafka / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + metadata_batch([bytes((1, 99, 0, 0))], 2))


def _damaged(kafka: Path) -> None:
    log = kafka / "orders-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


def _damaged_metadata(kafka: Path) -> None:
    log = kafka / "__cluster_metadata-0" / f"{0:020d}.log"
    (kafka / "__cluster_metadata-0" / f"{2:020d}.log").touch()
    log.write_bytes(log.read_bytes()[:-1])


def _named(kafka: Path, name: str) -> None:
    log = kafka / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(metadata_batch([topic(name, 9)]))


def _occupied(kafka: Path) -> None:
    (kafka.parent / "data").mkdir()
    (kafka.parent / "data" / "file").touch()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda kafka: (kafka / "meta.properties").unlink(), "the log.dirs of its server.properties"),
        (lambda kafka: write_meta(kafka, node_id="many"), "restore it from a copy"),
        (_of_zookeeper, "migrate it to KRaft"),
        (lambda kafka: (kafka / "__cluster_metadata-0").rename(kafka / "x"), "metadata.log.dir"),
        (_other_node, "adopt one broker at a time"),
        (_twice, "give the one that Kafka uses"),
        (_half_compacted, "start Kafka once"),
        (_later_kafka, "a Kafka later than 4.3"),
        (_damaged, "take another replica's copy"),
        (_damaged_metadata, "start Apache Kafka on it once"),
        (_occupied, "choose a new directory"),
        (lambda kafka: _named(kafka, "../up"), "no Kafka would create"),
        (lambda kafka: _named(kafka, "\x1b[31mred\n"), "no Kafka would create"),
        (lambda kafka: _named(kafka, "__cluster_metadata"), "no Kafka would create"),
    ],
)
def test_what_cannot_be_adopted_gets_a_sentence_and_leaves_nothing(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    kafka = simple(tmp_path / "kafka")
    spoil(kafka)
    before = fingerprint(tmp_path)
    others = [path for path in (tmp_path / "other",) if path.exists()]
    result = run(kafka, *others, "--out", tmp_path / "data")
    assert result.exit_code == 2
    assert said in result.stderr and len(result.stderr.splitlines()) == 1
    del before["."]
    after = fingerprint(tmp_path)
    assert {name: after.get(name) for name in before} == before and set(after) == {*before, "."}


_HOLDS_LOCK = (
    "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
)


def test_a_kafka_that_runs_is_left_alone(tmp_path: Path) -> None:
    kafka = simple(tmp_path / "kafka")
    command = [sys.executable, "-c", _HOLDS_LOCK, str(kafka / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        result = run(kafka, "--out", tmp_path / "data")
        holder.communicate(b"\n")
    assert result.exit_code == 2 and "a Kafka is running on" in result.stderr
    assert run(kafka, "--out", tmp_path / "data").exit_code == 0


def test_a_torn_end_is_cut_in_the_copy_alone(tmp_path: Path) -> None:
    kafka = simple(tmp_path / "kafka")
    last = kafka / "orders-0" / f"{3:020d}.log"
    last.write_bytes(last.read_bytes() + b"torn")
    before = fingerprint(kafka)
    assert run(kafka, "--out", tmp_path / "data").exit_code == 0
    assert fingerprint(kafka) == before
    broker = VirtualBroker(disk=load(tmp_path / "data"))
    assert broker.broker.topics.partition("orders", 0).log_end_offset == 4


def test_the_gaps_that_compaction_has_left_are_none_that_a_stop_has_torn(tmp_path: Path) -> None:
    """Although Kafka had not noted down yet that these segments were flushed."""
    compacted = ConfigRecord(resource_type=2, resource_name="orders", name="cleanup.policy", value="compact")
    records = [*topic_with("orders", ID, partition_on(ID, 0, [1], 1)), compacted]
    kafka = write_kafka_dir(tmp_path / "kafka", [encoded(record) for record in records])
    write_partition(kafka, "orders-0", ID, [b"a", b"b"], [b"c"], [b"d"])
    first = kafka / "orders-0" / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[first.stat().st_size // 2 :])  # offset 1 alone
    assert run(kafka, "--out", tmp_path / "data").exit_code == 0
    broker = VirtualBroker(disk=load(tmp_path / "data"))
    assert broker.broker.topics.partition("orders", 0).log_end_offset == 4


def test_nothing_is_written_into_a_directory_of_kafka(tmp_path: Path) -> None:
    kafka = simple(tmp_path / "kafka")
    before = fingerprint(kafka)
    result = run(kafka, "--out", kafka / "data")
    assert result.exit_code == 2 and "choose another directory" in result.stderr
    assert fingerprint(kafka) == before


def test_text_from_the_metadata_cannot_steer_a_terminal(tmp_path: Path) -> None:
    records = [
        *topic_with("orders", ID, partition_on(ID, 0, [2], 2)),
        *(
            ConfigRecord(resource_type=4, resource_name=name, name=name, value=name)
            for name in ("", "1", "7\x1b]0;", *HOSTILE.values())
        ),
        *(ConfigRecord(resource_type=2, resource_name="orders", name=name, value="1") for name in HOSTILE.values()),
    ]
    kafka = write_kafka_dir(tmp_path / "kafka", [encoded(record) for record in records])
    result = run(kafka, "--out", tmp_path / "data", "--partial")
    assert result.exit_code == 0, result.output
    require_harmless(result.stdout)


def test_a_dry_run_writes_nothing_and_reports_the_same(tmp_path: Path) -> None:
    kafka = simple(tmp_path / "kafka")
    before = fingerprint(tmp_path)
    dry = run(kafka, "--out", tmp_path / "data", "--dry-run", "--json")
    assert fingerprint(tmp_path) == before
    done = run(kafka, "--out", tmp_path / "data", "--json")
    assert json.loads(dry.stdout) | {"done": True} == json.loads(done.stdout)


def test_users_log_in_have_the_rights_and_the_quotas_that_they_had_in_kafka(tmp_path: Path) -> None:
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    made = keys(mechanism, "pencil", b"salt", 4_096)
    rule = AccessControlEntryRecord(
        id=ID,
        resource_type=ResourceType.TOPIC,
        resource_name="orders",
        pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.READ,
        permission_type=Permission.ALLOW,
    )
    user = [EntityData(entity_type="user", entity_name="alice")]
    records = [
        *topic_with("orders", ID, partition_on(ID, 0, [1], 1)),
        *topic_with("salaries", OTHER_ID, partition_on(OTHER_ID, 0, [1], 1)),
        UserScramCredentialRecord("alice", mechanism.number, b"salt", made.stored_key, made.server_key, 4_096),
        rule,
        ClientQuotaRecord(entity=user, key="consumer_byte_rate", value=1.0),
        DelegationTokenRecord(owner="User:alice", token_id="t"),
    ]
    kafka = write_kafka_dir(tmp_path / "kafka", [encoded(record) for record in records])
    for name, topic_id in (("orders-0", ID), ("salaries-0", OTHER_ID)):
        write_partition(kafka, name, topic_id, [b"a"])
    found = rows_of(run(kafka, "--out", tmp_path / "data", "--json"))
    assert [found[what] for what in ("SCRAM credentials", "ACLs", "quotas")] == [(1, "kept")] * 3
    assert found["delegation tokens"] == (1, "kept")
    server = SaslServer(
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        disk=load(tmp_path / "data"),
    )
    alice, scram = server.connect(), ScramClient(mechanism, "alice", "pencil")
    alice.handshake(mechanism.name)
    assert alice.token(scram.final(alice.token(scram.first).auth_bytes)).auth_bytes == scram.expected
    partition = FetchPartition(partition=0, partition_max_bytes=1_000)
    topics = [FetchTopic(topic=name, partitions=[partition]) for name in ("orders", "salaries")]
    fetched = alice.ask(FetchRequest(max_bytes=1_000, topics=topics), 11)
    assert {each.topic: ErrorCode(each.partitions[0].error_code) for each in fetched.responses} == {
        "orders": ErrorCode.NONE,
        "salaries": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert fetched.throttle_time_ms > 0
    ask = server.virtual.ask
    (resource,) = ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3).resources
    assert (resource.resource_name, resource.acls[0].principal) == ("orders", "User:alice")
    (described,) = ask(DescribeUserScramCredentialsRequest(users=None), 0).results
    assert (described.user, described.credential_infos[0].iterations) == ("alice", 4_096)
    (entry,) = ask(DescribeClientQuotasRequest(components=[]), 1).entries
    assert (entry.entity[0].entity_name, entry.values[0].value) == ("alice", 1.0)


def test_users_are_listed_and_not_changed_before_a_start_that_may_write(tmp_path: Path) -> None:
    """The recording has an open transaction whose timeout is long past."""
    assert run(recorded(tmp_path)[0], "--out", tmp_path / "ours").exit_code == 0
    before = fingerprint(tmp_path / "ours")
    listed, added = (
        CliRunner().invoke(main, ["user", *command, "--data-dir", str(tmp_path / "ours")], input="secret\n")
        for command in (["list"], ["add", "alice"])
    )
    assert (listed.exit_code, listed.output) == (0, "There are no users.\n")
    assert added.exit_code == 2 and "serve --writable" in added.stderr
    assert fingerprint(tmp_path / "ours") == before


def test_the_mark_of_an_adopted_directory_goes_with_its_way_back_to_kafka(tmp_path: Path) -> None:
    kafka, data = simple(tmp_path / "kafka"), tmp_path / "data"
    assert run(kafka, "--out", data).exit_code == 0
    assert (data / ADOPTED).read_text() == f"{kafka}\n"
    back = [str(data), "--in-place", "--yes", "--override", "listeners=PLAINTEXT://127.0.0.1:9092"]
    result = CliRunner().invoke(main, ["graduate", *back])
    assert result.exit_code == 0, result.output
    assert not (data / ADOPTED).exists()


def test_copies_share_nothing(tmp_path: Path) -> None:
    kafka = simple(tmp_path / "kafka")
    assert run(kafka, "--out", tmp_path / "data", "--copy").exit_code == 0
    assert all(path.stat().st_nlink == 1 for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("code", [1, 18], ids=["EPERM", "EXDEV"])
def test_without_hard_links_it_says_how_to_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def link(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    kafka = simple(tmp_path / "kafka")
    monkeypatch.setattr(os, "link", link)
    result = run(kafka, "--out", tmp_path / "data")
    assert result.exit_code == 2 and "--copy" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka"]


# --- the metadata -----------------------------------------------------------------------------------------------------


def metadata_of(kafka: Path) -> list[str]:
    return sorted(read_metadata(RealDisk(kafka, read_only=True)).state.topics)


def topic(name: str, number: int) -> bytes:
    return encoded(TopicRecord(name=name, topic_id=UUID(int=number)))


def test_records_of_a_metadata_transaction_count_from_its_end_on(tmp_path: Path) -> None:
    values = [
        topic("a", 1),
        BEGIN,
        topic("b", 2),
        END,
        BEGIN,
        topic("c", 3),
        ABORT,
        topic("d", 4),
        BEGIN,
        topic("e", 5),
    ]
    assert metadata_of(write_kafka_dir(tmp_path / "kafka", values)) == ["a", "b", "d"]


def test_a_removed_topic_is_gone_with_its_partitions(tmp_path: Path) -> None:
    records = [*topic_with("orders", ID, partition_on(ID, 0, [1], 1)), RemoveTopicRecord(topic_id=ID)]
    kafka = write_kafka_dir(tmp_path / "kafka", [encoded(record) for record in records])
    metadata = read_metadata(RealDisk(kafka, read_only=True))
    assert (metadata.state.topics, metadata.partitions) == ({}, {})


@pytest.mark.parametrize("version", [0, 1, 2])
def test_changes_of_a_partition_add_up_in_every_version(tmp_path: Path, version: int) -> None:
    changes = (
        PartitionChangeRecord(topic_id=ID, partition_id=0, isr=[2], leader=2),
        PartitionChangeRecord(topic_id=ID, partition_id=0, replicas=[2, 3]),
        PartitionChangeRecord(topic_id=ID, partition_id=0, leader=-1, isr=[2]),
    )
    values = [encoded(record) for record in topic_with("orders", ID, partition_on(ID, 0, [1, 2], 1))]
    values += [encoded(change, version) for change in changes]
    found = read_metadata(RealDisk(write_kafka_dir(tmp_path / "kafka", values), read_only=True)).partitions[ID][0]
    assert (found.replicas, found.isr, found.leader, found.leader_epoch) == ((2, 3), (2,), -1, 5)


def test_a_torn_end_of_the_metadata_log_is_not_read(tmp_path: Path) -> None:
    kafka = write_kafka_dir(tmp_path / "kafka", [topic("a", 1)])
    log = kafka / "__cluster_metadata-0" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes() + metadata_batch([topic("b", 2)], 1)[:-1])
    assert metadata_of(kafka) == ["a"]


def test_a_recorded_directory_of_kafka_3_9_is_adopted_whole(tmp_path: Path) -> None:
    kafka, shown = recorded(tmp_path)
    before = fingerprint(kafka)
    result = run(kafka, "--out", tmp_path / "ours", "--json")
    assert result.exit_code == 0, result.output
    assert fingerprint(kafka) == before
    assert rows_of(result)["directories *-delete"] == (1, "left")
    broker = VirtualBroker(disk=load(tmp_path / "ours")).broker
    topics = {each.name: [str(each.topic_id), each.partition_count] for each in broker.topics.all()}
    assert (broker.cluster_id, topics) == (shown["cluster_id"], shown["topics"])
