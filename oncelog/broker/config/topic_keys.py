"""Every topic setting of Kafka 4.3: name, type, default, bounds, and the corresponding broker settings.

Owns: the table. Does not own: effective values (`broker.config.topic_config`), the broker's table
(`broker.config.broker_keys`). Invariant: a topic setting has the type, bounds and default of the broker's, unless its
unit differs.
"""

from dataclasses import dataclass

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.config_key import INT64_MAX, ConfigKey, ConfigType

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_WEEK_MS = 604_800_000


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that a topic's falls back to; `factor` converts its unit to the topic's."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class TopicConfigKey:
    key: ConfigKey
    synonyms: tuple[Synonym, ...] = ()

    @property
    def name(self) -> str:
        return self.key.name


def _of(name: str, synonym: str, doc: str) -> TopicConfigKey:
    """Return a topic setting with the type, bounds and default of the broker's."""
    like = BROKER_KEYS[synonym]
    key = ConfigKey(name, like.type, like.default, doc, like.minimum, like.maximum, like.choices, like.exception)
    return TopicConfigKey(key, (Synonym(synonym),))


def _time(name: str, default_ms: int, minimum: int, doc: str, *synonyms: Synonym) -> TopicConfigKey:
    """Return a time whose broker settings come in several units, tried in turn."""
    return TopicConfigKey(ConfigKey(name, ConfigType.LONG, str(default_ms), doc, minimum), synonyms)


def _without_effect(name: str, kind: ConfigType, default: str) -> TopicConfigKey:
    """Return a setting of replication or tiered storage, which one node does not have."""
    return TopicConfigKey(
        ConfigKey(name, kind, default, "Without effect on one node.", empty_items=kind is ConfigType.LIST)
    )


_TABLE = (
    _of("cleanup.policy", "log.cleanup.policy", "What happens to old segments: delete, compact, or both."),
    _of("compression.gzip.level", "compression.gzip.level", "Level when the broker compresses with gzip."),
    _of("compression.lz4.level", "compression.lz4.level", "Level when the broker compresses with lz4."),
    _of("compression.type", "compression.type", "The codec on disk; producer keeps that of the batch."),
    _of("compression.zstd.level", "compression.zstd.level", "Level when the broker compresses with zstd."),
    _of("delete.retention.ms", "log.cleaner.delete.retention.ms", "How long a tombstone stays."),
    _of("file.delete.delay.ms", "log.segment.delete.delay.ms", "Without effect: files go once nothing uses them."),
    _of(
        "flush.messages",
        "log.flush.interval.messages",
        "With oncelog.flush.policy=os: sync the log after this many records, before the response; with fsync all are.",
    ),
    _time(
        "flush.ms",
        INT64_MAX,
        0,
        "With oncelog.flush.policy=os: sync records in the background after this time; with fsync they are before.",
        Synonym("log.flush.interval.ms"),
        Synonym("log.flush.scheduler.interval.ms"),
    ),
    _without_effect("follower.replication.throttled.replicas", ConfigType.LIST, ""),
    _of("index.interval.bytes", "log.index.interval.bytes", "Bytes of log between two index entries."),
    _without_effect("leader.replication.throttled.replicas", ConfigType.LIST, ""),
    _of("local.retention.bytes", "log.local.retention.bytes", "Without effect on one node."),
    _of("local.retention.ms", "log.local.retention.ms", "Without effect on one node."),
    _of("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", "The longest time before compaction."),
    _of("max.message.bytes", "message.max.bytes", "The largest record batch."),
    _of("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms", "How far ahead a timestamp may be."),
    _of("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms", "How old a timestamp may be."),
    _of("message.timestamp.type", "log.message.timestamp.type", "Whose clock stamps the records."),
    _of("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", "How dirty a log must be for compaction."),
    _of("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", "The shortest time before compaction."),
    _of("min.insync.replicas", "min.insync.replicas", "Without effect: acks=all requires the one replica."),
    _of("preallocate", "log.preallocate", "Without effect: a segment file grows as it is written."),
    _without_effect("remote.log.copy.disable", ConfigType.BOOLEAN, "false"),
    _without_effect("remote.log.delete.on.disable", ConfigType.BOOLEAN, "false"),
    _without_effect("remote.storage.enable", ConfigType.BOOLEAN, "false"),
    _of("retention.bytes", "log.retention.bytes", "Bytes kept in a partition; -1: all."),
    _time(
        "retention.ms",
        _WEEK_MS,
        -1,
        "Time that records are kept; -1: for ever.",
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", _MINUTE_MS),
        Synonym("log.retention.hours", _HOUR_MS),
    ),
    _of("segment.bytes", "log.segment.bytes", "The size of one segment file."),
    _of("segment.index.bytes", "log.index.size.max.bytes", "The size of one index file."),
    _time(
        "segment.jitter.ms",
        0,
        0,
        "How much sooner than segment.ms a segment may close.",
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    _time(
        "segment.ms",
        _WEEK_MS,
        1,
        "Time after which a segment is closed.",
        Synonym("log.roll.ms"),
        Synonym("log.roll.hours", _HOUR_MS),
    ),
    _of("unclean.leader.election.enable", "unclean.leader.election.enable", "Without effect on one node."),
)

TOPIC_CONFIGS = {item.name: item for item in _TABLE}

INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
INTERNAL_TOPIC_CONFIGS = {
    INTERNAL_SEGMENT_BYTES: TopicConfigKey(
        ConfigKey(INTERNAL_SEGMENT_BYTES, ConfigType.INT, None, "The size of a segment below the bound, for tests.", 1)
    )
}
"""Kafka's internal settings of a topic: shown once they are given, as in Kafka."""
