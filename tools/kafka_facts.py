"""What Apache Kafka 4.3 has, as docs/compare/compatibility.md compares it: APIs with their versions, other defaults.

Owns: the facts about Kafka. tests/conformance holds them to its classes, tests/test_pages.py the API table to them.
"""

from oncelog.protocol.api_keys import ApiKey

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
    "node.id": ("none, required", "A single node needs no number."),
    "listeners": ("PLAINTEXT://:9092", "By default nobody has to log in, so no other machine has access."),
    "controller.listener.names": ("none, required", "No controller listens beside the broker."),
    "log.dir": ("/tmp/kafka-logs", "Data should outlive a cleaned /tmp."),
    "socket.listen.backlog.size": ("50", "One process accepts for all listeners."),
    "socket.receive.buffer.bytes": ("102400", "The operating system adapts it."),
    "socket.send.buffer.bytes": ("102400", "The operating system adapts it."),
    "queued.max.request.bytes": ("-1", "Memory has a bound whatever clients send."),
    "group.initial.rebalance.delay.ms": ("3000", "A group of one, as in tests, need not wait for more members."),
    "log.initial.task.delay.ms": ("30000", "A disk that is full at the start should not stay so."),
    "metadata.log.max.record.bytes.between.snapshots": ("20971520", "A start reads that much again, record by record."),
}
"""Settings whose default is not Kafka's: Kafka's default, and why; tests/conformance holds it to Kafka's classes."""

INTERNAL_TOPIC_SETTINGS = frozenset({"internal.segment.bytes"})
"""Settings of topics that Kafka's classes have and its brokers do not show."""
