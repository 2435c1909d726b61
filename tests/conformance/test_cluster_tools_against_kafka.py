"""Kafka's console tools for the cluster print here what they print on Apache Kafka where the same is switched off."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from tests.clients.share_requests import SETTINGS
from tests.clients.wire import WireBroker
from tests.conformance.transcripts.cluster_transcript import FEATURES_OFF
from tests.support.kafka.java import ask_kafka
from tests.support.kafka.server import Kafka
from tests.support.processes.daemon import Daemon
from tools import kafka_facts

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent.parent / "interop" / "AdminTools.java"
TOPIC = "moved"
TOOLS = "org.apache.kafka.tools."
ACLS = (TOOLS + "AclCommand",)
CLUSTER = TOOLS + "ClusterTool"
CONFIGS = ("kafka.admin.ConfigCommand",)
LEADERS = (TOOLS + "LeaderElectionCommand",)
LOG_DIRS = (TOOLS + "LogDirsCommand",)
QUORUM = TOOLS + "MetadataQuorumCommand"
REASSIGN = (TOOLS + "reassign.ReassignPartitionsCommand",)
SHARE_GROUPS = (TOOLS + "consumer.group.ShareGroupCommand",)
STREAMS_GROUPS = (TOOLS + "streams.StreamsGroupCommand",)
TOKENS = (TOOLS + "DelegationTokenCommand", "--command-config", "NO_SETTINGS")
TOPICS = (TOOLS + "TopicCommand",)
TRANSACTIONS = TOOLS + "TransactionsCommand"
QUOTA_ENTITIES = (
    ("--entity-type", "users", "--entity-name", "bob"),
    ("--entity-type", "users", "--entity-default"),
    ("--entity-type", "clients", "--entity-name", "slow"),
    ("--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients", "--entity-name", "slow"),
    ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-default"),
)
CONNECTIONS = "connection_creation_rate=1000"

Command = tuple[tuple[str, ...], tuple[str, ...]]
"""The words before the broker's address, and the words after it."""
COMMANDS: tuple[Command, ...] = (
    (TOPICS, ("--create", "--topic", TOPIC, "--partitions", "2")),
    ((CLUSTER, "cluster-id"), ()),
    ((CLUSTER, "list-endpoints"), ()),
    ((CLUSTER, "list-endpoints"), ("--include-fenced-brokers",)),
    ((CLUSTER, "unregister"), ("--id", "9")),
    (LOG_DIRS, ("--describe",)),
    (LOG_DIRS, ("--describe", "--topic-list", TOPIC)),
    (LOG_DIRS, ("--describe", "--broker-list", "9")),
    (LEADERS, ("--election-type", "preferred", "--topic", TOPIC, "--partition", "0")),
    (LEADERS, ("--election-type", "unclean", "--topic", TOPIC, "--partition", "1")),
    (LEADERS, ("--election-type", "preferred", "--topic", "nowhere", "--partition", "0")),
    (LEADERS, ("--election-type", "preferred", "--all-topic-partitions")),
    ((QUORUM,), ("describe", "--status")),
    ((QUORUM,), ("describe", "--replication")),
    ((QUORUM,), ("remove-controller", "--controller-id", "1", "--controller-directory-id", "AAAAAAAAAAAAAAAAAAAABQ")),
    (REASSIGN, ("--list",)),
    (REASSIGN, ("--generate", "--topics-to-move-json-file", "TOPICS", "--broker-list", "1")),
    (REASSIGN, ("--generate", "--topics-to-move-json-file", "TOPICS", "--broker-list", "1,2")),
    (REASSIGN, ("--execute", "--reassignment-json-file", "STAY")),
    (REASSIGN, ("--verify", "--reassignment-json-file", "STAY")),
    (REASSIGN, ("--execute", "--reassignment-json-file", "LEAVE")),
    (REASSIGN, ("--cancel", "--reassignment-json-file", "STAY")),
    (ACLS, ("--list",)),
    (ACLS, ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", TOPIC)),
    (ACLS, ("--remove", "--force", "--allow-principal", "User:a", "--operation", "Read", "--topic", TOPIC)),
    (TOKENS, ("--create", "--max-life-time-period", "-1")),
    (TOKENS, ("--describe",)),
    (CONFIGS, ("--describe", "--entity-type", "users")),
    (CONFIGS, ("--describe", "--entity-type", "users", "--entity-name", "alice")),
    (CONFIGS, ("--describe", "--entity-type", "clients", "--entity-default")),
    (CONFIGS, ("--describe", "--entity-type", "ips")),
    (CONFIGS, ("--alter", "--entity-type", "users", "--entity-name", "alice", "--delete-config", "SCRAM-SHA-256")),
    *(
        (CONFIGS, ("--alter", *entity, "--add-config", "producer_byte_rate=1048576,request_percentage=12.5"))
        for entity in QUOTA_ENTITIES
    ),
    (CONFIGS, ("--alter", "--entity-type", "ips", "--entity-name", "10.0.0.7", "--add-config", CONNECTIONS)),
    (CONFIGS, ("--alter", "--entity-type", "ips", "--entity-default", "--add-config", CONNECTIONS)),
    *((CONFIGS, ("--describe", *entity)) for entity in QUOTA_ENTITIES),
    (CONFIGS, ("--describe", "--entity-type", "users", "--entity-type", "clients")),
    (CONFIGS, ("--describe", "--entity-type", "clients")),
    (CONFIGS, ("--describe", "--entity-type", "ips")),
    (CONFIGS, ("--alter", *QUOTA_ENTITIES[0], "--delete-config", "producer_byte_rate")),
    (CONFIGS, ("--describe", *QUOTA_ENTITIES[0])),
    (CONFIGS, ("--alter", *QUOTA_ENTITIES[0], "--add-config", "producer_byte_rate=-1")),
    (CONFIGS, ("--alter", *QUOTA_ENTITIES[0], "--add-config", "consumer_byte_rate=1.5")),
    (CONFIGS, ("--alter", *QUOTA_ENTITIES[0], "--add-config", "nonsense=1")),
    (SHARE_GROUPS, ("--list",)),
    (SHARE_GROUPS, ("--describe", "--group", "share")),
    (SHARE_GROUPS, ("--reset-offsets", "--to-earliest", "--group", "share", "--topic", TOPIC, "--execute")),
    (SHARE_GROUPS, ("--delete-offsets", "--group", "share", "--topic", TOPIC)),
    (STREAMS_GROUPS, ("--list",)),
    (STREAMS_GROUPS, ("--describe", "--group", "streams")),
    ((TRANSACTIONS,), ("list",)),
    ((TRANSACTIONS,), ("list", "--transactional-id-pattern", "a.*")),
    ((TRANSACTIONS,), ("list", "--transactional-id-pattern", "(")),
)

# Ids, sizes, times and places that no two brokers have in common, and the tool's own lines of log.
_NOISE = re.compile(
    r"(?<=Cluster ID: )\S+|(?<=ClusterId: )\S+|(?<=LeaderEpoch: )\d+|(?<=HighWatermark: )\d+"
    r"|(?<=\"logDir\":\")[^\"]*|(?<=\"log_dirs\":\[\")/[^\"]*|(?<=\"size\":)\d+|(?<=\"endpoints\": \[\")[^\"]*"
    r"|(?<=AAAAAAAAAAAAAAAAAAAAAA )\d+ 0 \d+ \d+|(?<=127\.0\.0\.1 )\d+|\[\d{4}-\d\d-\d\d [^\]]*\] *"
)


def printed(bootstrap: str, commands: Sequence[Command]) -> list[str]:
    questions = ["\t".join((*before, "--bootstrap-server", bootstrap, *after)) for before, after in commands]
    return [without_noise(answer.replace(bootstrap, "ADDRESS")) for answer in ask_kafka(PROGRAM, questions)]


def without_noise(answer: str) -> str:
    lines = [_NOISE.sub("", re.sub(r"\s+", " ", line)).strip() for line in answer.split("\\n")]
    return "\n".join(line for line in lines if line and not line.startswith(("at ", "\\tat ", "SLF4J")))


def files(directory: Path) -> dict[str, str]:
    """Write the files that the tools read; return their paths by the names that the commands give them."""

    def on(broker: int) -> object:
        partitions = [{"topic": TOPIC, "partition": index, "replicas": [broker]} for index in (0, 1)]
        return {"version": 1, "partitions": partitions}

    contents = {"TOPICS": {"topics": [{"topic": TOPIC}], "version": 1}, "STAY": on(1), "LEAVE": on(2)}
    for name, content in contents.items():
        (directory / name).write_text(json.dumps(content))
    (directory / "NO_SETTINGS").write_text("")
    return {name: str(directory / name) for name in (*contents, "NO_SETTINGS")}


def all_printed(bootstrap: str, directory: Path) -> Iterator[tuple[str, str]]:
    paths = files(directory)

    def named(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(paths.get(word, word) for word in words)

    answers = printed(bootstrap, [(named(before), named(after)) for before, after in COMMANDS])
    for (before, after), answer in zip(COMMANDS, answers, strict=True):
        yield " ".join((*before, *after)), answer


def test_the_tools_print_what_they_print_on_apache_kafka(daemon: Daemon, tmp_path: Path) -> None:
    ours = dict(all_printed(daemon.bootstrap, tmp_path))
    # Alone, Kafka could not create the three replicas of __share_group_state, and what needs it would time out.
    kafka = Kafka(tmp_path, static_quorum=True, overrides=SETTINGS)
    try:
        theirs = dict(all_printed(kafka.bootstrap, tmp_path))
    finally:
        kafka.stop()
    assert ours == theirs


def test_kafka_lists_the_versions_that_the_page_knows(tmp_path: Path) -> None:
    """Telemetry is Kafka's too, but hidden where no plugin receives it; Produce is listed from 0 for librdkafka."""
    kafka = Kafka(tmp_path, features=FEATURES_OFF, static_quorum=True)
    try:
        broker = WireBroker(kafka.bootstrap)
        listed = broker.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
        broker.close()
    finally:
        kafka.stop()
    hidden = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    kafkas = {key: versions for key, versions in kafka_facts.KAFKA.items() if key not in hidden} | {
        ApiKey.PRODUCE: (0, 13)
    }
    assert {api.api_key: (api.min_version, api.max_version) for api in listed.api_keys} == kafkas
