"""The settings of logs: the metadata log, topics, and the defaults of the topic settings.

Owns: a table of `broker.config.broker_keys`. Does not own: the topic settings (`broker.config.topic_keys`, which pairs
them with these).
"""

from oncelog.broker.config.config_key import INT64_MAX, ConfigKey, ConfigType

_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE

LOG_KEYS = (
    # The metadata log.
    ConfigKey(
        "metadata.log.max.record.bytes.between.snapshots",
        _LONG,
        "1048576",
        "A metadata snapshot is written after this many bytes of records; 1 MiB here, as a start replays them.",
        1,
    ),
    ConfigKey(
        "metadata.log.max.snapshot.interval.ms",
        _LONG,
        "3600000",
        "A snapshot of changed metadata is written after this time, whatever its size; 0: never because of time.",
        0,
    ),
    # Topics.
    ConfigKey("auto.create.topics.enable", _BOOLEAN, "true", "Create a topic when Metadata requests it."),
    ConfigKey("delete.topic.enable", _BOOLEAN, "true", "Whether DeleteTopics is allowed."),
    ConfigKey("num.partitions", _INT, "1", "Partitions of a new topic without an explicit number.", 1),
    # Defaults of the topic settings, and what is done to the logs by time.
    ConfigKey("compression.type", _STRING, "producer", "Default of compression.type.", choices=_COMPRESSIONS),
    ConfigKey("compression.gzip.level", _INT, "-1", "Default of compression.gzip.level.", 1, 9, exception=-1),
    ConfigKey("compression.lz4.level", _INT, "9", "Default of compression.lz4.level.", 1, 17),
    ConfigKey("compression.zstd.level", _INT, "3", "Default of compression.zstd.level.", -131072, 22),
    ConfigKey("log.cleanup.policy", _LIST, "delete", "Default of cleanup.policy.", choices=("compact", "delete")),
    ConfigKey("log.cleaner.backoff.ms", _LONG, "15000", "How often to check for a log to compact.", 0),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size", _LONG, "134217728", "Memory for the keys of one compaction run.", 1048576
    ),
    ConfigKey("log.cleaner.enable", _BOOLEAN, "true", "Compact topics with cleanup.policy=compact."),
    ConfigKey("log.cleaner.delete.retention.ms", _LONG, "86400000", "Default of delete.retention.ms.", 0),
    ConfigKey("log.cleaner.max.compaction.lag.ms", _LONG, str(INT64_MAX), "Default of max.compaction.lag.ms.", 1),
    ConfigKey("log.cleaner.min.cleanable.ratio", _DOUBLE, "0.5", "Default of min.cleanable.dirty.ratio.", 0, 1),
    ConfigKey("log.cleaner.min.compaction.lag.ms", _LONG, "0", "Default of min.compaction.lag.ms.", 0),
    ConfigKey("log.flush.interval.messages", _LONG, str(INT64_MAX), "Default of flush.messages.", 1),
    ConfigKey("log.flush.interval.ms", _LONG, None, "Default of flush.ms; unset: log.flush.scheduler.interval.ms."),
    ConfigKey(
        "log.flush.scheduler.interval.ms",
        _LONG,
        str(INT64_MAX),
        "How often to look for logs that flush.ms makes due; unset: each second. Default of log.flush.interval.ms.",
    ),
    ConfigKey("log.index.interval.bytes", _INT, "4096", "Default of index.interval.bytes.", 0),
    ConfigKey("log.index.size.max.bytes", _INT, "10485760", "Default of segment.index.bytes.", 4),
    ConfigKey("log.local.retention.bytes", _LONG, "-2", "Default of local.retention.bytes.", -2),
    ConfigKey("log.local.retention.ms", _LONG, "-2", "Default of local.retention.ms.", -2),
    ConfigKey("log.message.timestamp.after.max.ms", _LONG, "3600000", "Default of message.timestamp.after.max.ms.", 0),
    ConfigKey(
        "log.message.timestamp.before.max.ms", _LONG, str(INT64_MAX), "Default of message.timestamp.before.max.ms.", 0
    ),
    ConfigKey(
        "log.message.timestamp.type",
        _STRING,
        "CreateTime",
        "Default of message.timestamp.type.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey("log.preallocate", _BOOLEAN, "false", "Default of preallocate."),
    ConfigKey("log.retention.bytes", _LONG, "-1", "Default of retention.bytes."),
    ConfigKey("log.retention.hours", _INT, "168", "Default of retention.ms, in hours."),
    ConfigKey(
        "log.retention.minutes", _INT, None, "Default of retention.ms, in minutes; overrides log.retention.hours."
    ),
    ConfigKey("log.retention.ms", _LONG, None, "Default of retention.ms; overrides log.retention.minutes."),
    ConfigKey("log.retention.check.interval.ms", _LONG, "300000", "How often to check for old segments.", 1),
    ConfigKey(
        "log.initial.task.delay.ms",
        _LONG,
        "0",
        "The delay of the first check for old segments after a start; 0 here.",
        0,
    ),
    ConfigKey("log.roll.hours", _INT, "168", "Default of segment.ms, in hours.", 1),
    ConfigKey("log.roll.ms", _LONG, None, "Default of segment.ms; overrides log.roll.hours."),
    ConfigKey("log.roll.jitter.hours", _INT, "0", "Default of segment.jitter.ms, in hours.", 0),
    ConfigKey("log.roll.jitter.ms", _LONG, None, "Default of segment.jitter.ms; overrides log.roll.jitter.hours."),
    ConfigKey("log.segment.bytes", _INT, "1073741824", "Default of segment.bytes.", 1048576),
    ConfigKey("log.segment.delete.delay.ms", _LONG, "60000", "Default of file.delete.delay.ms.", 0),
    ConfigKey("message.max.bytes", _INT, "1048588", "Default of max.message.bytes: the largest record batch.", 0),
    ConfigKey("min.insync.replicas", _INT, "1", "Default of min.insync.replicas; one node has one replica.", 1),
    ConfigKey("unclean.leader.election.enable", _BOOLEAN, "false", "Default of unclean.leader.election.enable."),
)
