"""Rewrites the tables of docs/compare/compatibility.md from the API table and the features of the broker.

    python tools/update_compatibility.py

A test holds the page to this, and the API table to Kafka's ranges.
"""

from pathlib import Path

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.cluster.features import FEATURES
from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.kafka_names import UNNEEDED_GROUPS
from oncelog.protocol.api_keys import ApiKey

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compare" / "compatibility.md"
START = "<!-- from the code: python tools/update_compatibility.py -->"

KAFKA = {
    0: (3, 13),  # Produce
    1: (4, 18),  # Fetch
    2: (1, 11),  # ListOffsets
    3: (0, 13),  # Metadata
    8: (2, 10),  # OffsetCommit
    9: (1, 10),  # OffsetFetch
    10: (0, 6),  # FindCoordinator
    11: (0, 9),  # JoinGroup
    12: (0, 4),  # Heartbeat
    13: (0, 5),  # LeaveGroup
    14: (0, 5),  # SyncGroup
    15: (0, 6),  # DescribeGroups
    16: (0, 5),  # ListGroups
    17: (0, 1),  # SaslHandshake
    18: (0, 4),  # ApiVersions
    19: (2, 7),  # CreateTopics
    20: (1, 6),  # DeleteTopics
    21: (0, 2),  # DeleteRecords
    22: (0, 5),  # InitProducerId
    23: (2, 4),  # OffsetForLeaderEpoch
    24: (0, 5),  # AddPartitionsToTxn
    25: (0, 4),  # AddOffsetsToTxn
    26: (0, 5),  # EndTxn
    27: (1, 2),  # WriteTxnMarkers
    28: (0, 5),  # TxnOffsetCommit
    29: (1, 3),  # DescribeAcls
    30: (1, 3),  # CreateAcls
    31: (1, 3),  # DeleteAcls
    32: (1, 4),  # DescribeConfigs
    33: (0, 2),  # AlterConfigs
    34: (1, 2),  # AlterReplicaLogDirs
    35: (1, 5),  # DescribeLogDirs
    36: (0, 2),  # SaslAuthenticate
    37: (0, 3),  # CreatePartitions
    38: (1, 3),  # CreateDelegationToken
    39: (1, 2),  # RenewDelegationToken
    40: (1, 2),  # ExpireDelegationToken
    41: (1, 3),  # DescribeDelegationToken
    42: (0, 2),  # DeleteGroups
    43: (0, 2),  # ElectLeaders
    44: (0, 1),  # IncrementalAlterConfigs
    45: (0, 1),  # AlterPartitionReassignments
    46: (0, 0),  # ListPartitionReassignments
    47: (0, 0),  # OffsetDelete
    48: (0, 1),  # DescribeClientQuotas
    49: (0, 1),  # AlterClientQuotas
    50: (0, 0),  # DescribeUserScramCredentials
    51: (0, 0),  # AlterUserScramCredentials
    55: (0, 2),  # DescribeQuorum
    57: (0, 2),  # UpdateFeatures
    60: (0, 2),  # DescribeCluster
    61: (0, 0),  # DescribeProducers
    64: (0, 0),  # UnregisterBroker
    65: (0, 0),  # DescribeTransactions
    66: (0, 2),  # ListTransactions
    68: (0, 1),  # ConsumerGroupHeartbeat
    69: (0, 1),  # ConsumerGroupDescribe
    71: (0, 0),  # GetTelemetrySubscriptions
    72: (0, 0),  # PushTelemetry
    74: (0, 1),  # ListConfigResources
    75: (0, 0),  # DescribeTopicPartitions
    76: (1, 1),  # ShareGroupHeartbeat
    77: (1, 1),  # ShareGroupDescribe
    78: (1, 2),  # ShareFetch
    79: (1, 2),  # ShareAcknowledge
    80: (0, 1),  # AddRaftVoter
    81: (0, 0),  # RemoveRaftVoter
    83: (0, 0),  # InitializeShareGroupState
    84: (0, 0),  # ReadShareGroupState
    85: (0, 1),  # WriteShareGroupState
    86: (0, 0),  # DeleteShareGroupState
    87: (0, 1),  # ReadShareGroupStateSummary
    88: (0, 0),  # StreamsGroupHeartbeat
    89: (0, 0),  # StreamsGroupDescribe
    90: (0, 1),  # DescribeShareGroupOffsets
    91: (0, 0),  # AlterShareGroupOffsets
    92: (0, 0),  # DeleteShareGroupOffsets
}
"""Every API of Apache Kafka 4.3's broker listeners with its stable versions (validVersions in the message schemas)."""

NOT_SERVED = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "Kafka lists it only if a plugin receives client metrics. None does here.",
    ApiKey.PUSH_TELEMETRY: "As above.",
}

OTHER_DEFAULTS = {
    "node.id": ("none, required", "One node needs no number."),
    "listeners": ("PLAINTEXT://:9092", "By default nobody has to log in, so no other machine has access."),
    "controller.listener.names": ("none, required", "No controller listens beside the broker."),
    "log.dir": ("/tmp/kafka-logs", "Data should outlive a cleaned /tmp."),
    "socket.listen.backlog.size": ("50", "One process accepts for all listeners."),
    "socket.receive.buffer.bytes": ("102400", "The operating system adapts it."),
    "socket.send.buffer.bytes": ("102400", "The operating system adapts it."),
    "queued.max.request.bytes": ("-1", "Memory has a bound whatever clients send."),
    "group.initial.rebalance.delay.ms": ("3000", "A group of one, as in tests, need not wait for more members."),
    "metadata.log.max.record.bytes.between.snapshots": ("20971520", "A start reads that much again, record by record."),
}
"""Settings whose default is not Kafka's: Kafka's default, and why; tests/conformance holds it to Kafka's classes."""

INTERNAL_TOPIC_SETTINGS = frozenset({"internal.segment.bytes"})
"""Settings of topics that Kafka's classes have and its brokers do not show."""

_UNNEEDED = """\
Kafka has these settings, and one node has no use for them. They are accepted at the start, with a warning,
and those that Kafka can change while it runs can be changed here, too. DescribeConfigs shows what is true:
Kafka's default, as with the feature switched off, or 1 for a number of replicas. A value that was set while
the broker runs is shown as it was set. The whole list, with Kafka's value, type, source and synonyms of each,
is recorded in `tests/conformance/answers/broker_settings_answers.json` and compared each time the tests run."""
_SAMPLE = 4


def generated() -> str:
    lines = [START, "", "| key | API | here | Kafka 4.3 | left out, and why |", "|--:|---|---|---|---|"]
    for key, (minimum, maximum) in KAFKA.items():
        api = API_TABLE.get(key)
        here = "–" if api is None else _range(api.minimum, api.maximum)
        why = NOT_SERVED.get(ApiKey(key), "") if api is None else api.left_out
        lines.append(f"| {key} | {_name(key)} | {here} | {_range(minimum, maximum)} | {why} |")
    lines += ["", "## Features", "", "| feature | levels here | a new data directory begins with |", "|---|---|---|"]
    for feature in FEATURES.values():
        lines.append(f"| `{feature.name}` | {_range(feature.minimum, feature.maximum)} | {feature.maximum} |")
    lines += ["", "## Defaults that differ", "", "All other settings have Kafka's defaults.", ""]
    lines += ["| setting | here | Kafka 4.3 | why |", "|---|---|---|---|"]
    for name, (kafkas, why) in OTHER_DEFAULTS.items():
        default = BROKER_KEYS[name].default
        lines.append(f"| `{name}` | {'none' if default is None else f'`{default}`'} | {_default(kafkas)} | {why} |")
    lines += ["", "## Settings without effect", "", _UNNEEDED, "", "| group | settings | DescribeConfigs | why |"]
    lines.append("|---|---|---|---|")
    for group in UNNEEDED_GROUPS:
        names = [name for name, _, _ in group.settings]
        sample = ", ".join(f"`{name}`" for name in names[:_SAMPLE])
        more = f" and {len(names) - _SAMPLE} more" if len(names) > _SAMPLE else ""
        lines.append(f"| {group.title} | {sample}{more} | {'shown' if group.is_shown else 'left out'} | {group.why} |")
    return "\n".join([*lines, ""])


def _default(text: str) -> str:
    return text if text.startswith("none") else f"`{text}`"


def _range(minimum: int, maximum: int) -> str:
    return str(minimum) if minimum == maximum else f"{minimum}–{maximum}"


def _name(key: int) -> str:
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def updated(page: str) -> str:
    return page[: page.index(START)] + generated()


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
