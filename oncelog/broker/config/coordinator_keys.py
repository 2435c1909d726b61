"""The settings of what coordinators keep: producer ids, transactions, groups and their offsets.

Owns: a table of `broker.config.broker_keys`.
"""

from oncelog.broker.config.config_key import INT32_MAX, ConfigKey, ConfigType

_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _LONG = ConfigType.INT, ConfigType.LONG


def _parse_protocols(text: str) -> None:
    if "classic" not in (item.strip() for item in text.split(",")):
        raise ValueError("Disabling the 'classic' protocol is not supported.")


COORDINATOR_KEYS = (
    # Idempotent and transactional producers.
    ConfigKey(
        "producer.id.expiration.check.interval.ms", _INT, "600000", "How often to check for idle producer ids.", 1
    ),
    ConfigKey("producer.id.expiration.ms", _INT, "86400000", "An idle producer id expires after this time.", 1),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _INT,
        "10000",
        "How often to check transaction timeouts with oncelog.compat=kafka; here each is aborted in time.",
        1,
    ),
    ConfigKey("transaction.max.timeout.ms", _INT, "900000", "The longest transaction timeout a client may request.", 1),
    ConfigKey("transaction.state.log.num.partitions", _INT, "50", "Partitions of __transaction_state.", 1),
    ConfigKey("transaction.state.log.segment.bytes", _INT, "104857600", "segment.bytes of __transaction_state.", 1),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        "3600000",
        "How often to check for idle transactional ids.",
        1,
    ),
    ConfigKey(
        "transaction.two.phase.commit.enable",
        _BOOLEAN,
        "false",
        "Let clients prepare transactions, which then never time out (KIP-939). Experimental.",
    ),
    ConfigKey(
        "unstable.api.versions.enable",
        _BOOLEAN,
        "false",
        "Serve versions that Kafka may still change: InitProducerId 6.",
    ),
    ConfigKey(
        "transactional.id.expiration.ms", _INT, "604800000", "An idle transactional id expires after this time.", 1
    ),
    # Groups.
    ConfigKey(
        "group.coordinator.rebalance.protocols",
        _LIST,
        "classic,consumer,streams",
        "Which protocols of groups are served; features (group.version, streams.version) may switch them off, too.",
        choices=("consumer", "classic", "share", "streams"),
        parse=_parse_protocols,
    ),
    ConfigKey("group.initial.rebalance.delay.ms", _INT, "0", "How long an empty group waits for more members."),
    ConfigKey("group.max.session.timeout.ms", _INT, "1800000", "The longest session timeout of a member."),
    ConfigKey("group.min.session.timeout.ms", _INT, "6000", "The shortest session timeout of a member."),
    ConfigKey("group.max.size", _INT, str(INT32_MAX), "Maximum number of members of one group.", 1),
    ConfigKey("group.consumer.session.timeout.ms", _INT, "45000", "When a silent consumer is removed (KIP-848).", 1),
    ConfigKey("group.consumer.min.session.timeout.ms", _INT, "45000", "The shortest allowed for a group.", 1),
    ConfigKey("group.consumer.max.session.timeout.ms", _INT, "60000", "The longest allowed for a group.", 1),
    ConfigKey(
        "group.consumer.heartbeat.interval.ms", _INT, "5000", "How often consumers send heartbeats (KIP-848).", 1
    ),
    ConfigKey("group.consumer.min.heartbeat.interval.ms", _INT, "5000", "The shortest allowed for a group.", 1),
    ConfigKey("group.consumer.max.heartbeat.interval.ms", _INT, "15000", "The longest allowed for a group.", 1),
    ConfigKey(
        "group.consumer.assignment.interval.ms",
        _INT,
        "1000",
        "Minimum time between assignments of a group (KIP-1263).",
        0,
    ),
    ConfigKey("group.consumer.min.assignment.interval.ms", _INT, "0", "The shortest allowed for a group.", 0),
    ConfigKey("group.consumer.max.assignment.interval.ms", _INT, "15000", "The longest allowed for a group.", 0),
    ConfigKey(
        "group.consumer.max.size", _INT, str(INT32_MAX), "Maximum number of members of one consumer group (KIP-848).", 1
    ),
    ConfigKey(
        "group.consumer.assignors",
        _LIST,
        "uniform,range",
        "Assignors of consumer groups; the first is the default.",
        choices=("uniform", "range"),
    ),
    ConfigKey(
        "group.consumer.migration.policy",
        _STRING,
        "bidirectional",
        "Which non-empty groups may change between the classic and the consumer protocol.",
        choices=("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
        any_case=True,
    ),
    ConfigKey(
        "group.consumer.regex.refresh.interval.ms",
        _INT,
        "600000",
        "How often to match the regular expressions of subscriptions again: rights may have changed.",
        10_000,
    ),
    # Share groups (KIP-932).
    ConfigKey("group.share.session.timeout.ms", _INT, "45000", "When a silent share consumer is removed.", 1),
    ConfigKey("group.share.min.session.timeout.ms", _INT, "45000", "The shortest allowed for a group.", 1),
    ConfigKey("group.share.max.session.timeout.ms", _INT, "60000", "The longest allowed for a group.", 1),
    ConfigKey("group.share.heartbeat.interval.ms", _INT, "5000", "How often share consumers send heartbeats.", 1),
    ConfigKey("group.share.min.heartbeat.interval.ms", _INT, "5000", "The shortest allowed for a group.", 1),
    ConfigKey("group.share.max.heartbeat.interval.ms", _INT, "15000", "The longest allowed for a group.", 1),
    ConfigKey("group.share.max.size", _INT, "200", "Maximum number of members of one share group.", 1, 1000),
    ConfigKey(
        "group.share.assignors",
        _LIST,
        "simple",
        "The assignor of share groups.",
        choices=("simple",),
    ),
    ConfigKey("group.share.assignment.interval.ms", _INT, "1000", "Minimum time between assignments of a group.", 0),
    ConfigKey("group.share.min.assignment.interval.ms", _INT, "0", "The shortest allowed for a group.", 0),
    ConfigKey("group.share.max.assignment.interval.ms", _INT, "15000", "The longest allowed for a group.", 0),
    ConfigKey(
        "group.share.initialize.retry.interval.ms",
        _INT,
        "30000",
        "When to begin the state of a share-partition again if the share coordinator has not answered.",
        1,
    ),
    ConfigKey("group.share.delivery.count.limit", _INT, "5", "How often a record is delivered at most.", 2, 10),
    ConfigKey("group.share.min.delivery.count.limit", _INT, "2", "The lowest allowed for a group.", 2, 5),
    ConfigKey("group.share.max.delivery.count.limit", _INT, "10", "The highest allowed for a group.", 5, 25),
    ConfigKey(
        "group.share.record.lock.duration.ms",
        _INT,
        "30000",
        "How long a share consumer may hold a record.",
        1_000,
        3_600_000,
    ),
    ConfigKey(
        "group.share.min.record.lock.duration.ms", _INT, "15000", "The shortest allowed for a group.", 1_000, 30_000
    ),
    ConfigKey(
        "group.share.max.record.lock.duration.ms", _INT, "60000", "The longest allowed for a group.", 30_000, 3_600_000
    ),
    ConfigKey(
        "group.share.partition.max.record.locks",
        _INT,
        "2000",
        "How many records of a partition a share group may have in flight.",
        100,
        10_000,
    ),
    ConfigKey("group.share.min.partition.max.record.locks", _INT, "100", "The lowest allowed for a group.", 100, 2_000),
    ConfigKey(
        "group.share.max.partition.max.record.locks", _INT, "4000", "The highest allowed for a group.", 2_000, 10_000
    ),
    ConfigKey("group.share.max.share.sessions", _INT, "2000", "How many share sessions this broker keeps at most.", 1),
    # Streams groups (KIP-1071).
    ConfigKey("group.streams.session.timeout.ms", _INT, "45000", "When a silent Kafka Streams client is removed.", 1),
    ConfigKey("group.streams.min.session.timeout.ms", _INT, "45000", "The shortest allowed for a group.", 1),
    ConfigKey("group.streams.max.session.timeout.ms", _INT, "60000", "The longest allowed for a group.", 1),
    ConfigKey("group.streams.heartbeat.interval.ms", _INT, "5000", "How often its clients send heartbeats.", 1),
    ConfigKey("group.streams.min.heartbeat.interval.ms", _INT, "5000", "The shortest allowed for a group.", 1),
    ConfigKey("group.streams.max.heartbeat.interval.ms", _INT, "15000", "The longest allowed for a group.", 1),
    ConfigKey(
        "group.streams.max.size", _INT, str(INT32_MAX), "Maximum number of members of one streams group (KIP-1071).", 1
    ),
    ConfigKey("group.streams.num.standby.replicas", _INT, "0", "How many standby members each task has.", 0),
    ConfigKey("group.streams.max.standby.replicas", _INT, "2", "The most that a group may have.", 0),
    ConfigKey(
        "group.streams.initial.rebalance.delay.ms",
        _INT,
        "3000",
        "How long a new streams group waits for more members before the first assignment.",
        0,
    ),
    ConfigKey("group.streams.assignment.interval.ms", _INT, "1000", "Minimum time between assignments of a group.", 0),
    ConfigKey("group.streams.min.assignment.interval.ms", _INT, "0", "The shortest allowed for a group.", 0),
    ConfigKey("group.streams.max.assignment.interval.ms", _INT, "15000", "The longest allowed for a group.", 0),
    ConfigKey("share.coordinator.state.topic.num.partitions", _INT, "50", "Partitions of __share_group_state.", 1),
    ConfigKey(
        "share.coordinator.state.topic.segment.bytes", _INT, "104857600", "segment.bytes of __share_group_state.", 1
    ),
    ConfigKey(
        "share.coordinator.snapshot.update.records.per.snapshot",
        _INT,
        "500",
        "How many updates of a share-partition are written between snapshots of it (KIP-932).",
        0,
        500,
    ),
    ConfigKey(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        _INT,
        "300000",
        "When the snapshot of a share-partition that does not change is written again.",
        1,
    ),
    ConfigKey(
        "share.coordinator.state.topic.prune.interval.ms",
        _INT,
        "300000",
        "How often redundant records of __share_group_state are deleted.",
        1,
    ),
    # Offsets.
    ConfigKey("offset.metadata.max.bytes", _INT, "4096", "The longest metadata of a committed offset."),
    ConfigKey("offsets.retention.minutes", _INT, "10080", "How long an empty group keeps its offsets.", 1),
    ConfigKey("offsets.retention.check.interval.ms", _LONG, "600000", "How often to check for expired offsets.", 1),
    ConfigKey("offsets.topic.num.partitions", _INT, "50", "Partitions of __consumer_offsets.", 1),
    ConfigKey("offsets.topic.segment.bytes", _INT, "104857600", "segment.bytes of __consumer_offsets.", 1),
)
