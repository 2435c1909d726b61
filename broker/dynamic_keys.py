"""Which settings of a broker may change while it runs (KIP-226).

Owns: the tables. They follow Kafka 4.3's DynamicBrokerConfig. Does not own: where changes live (`broker.metadata_log`),
how they take effect (`broker.live_config`). Invariant: a name in `_EFFECTIVE` is read at each use, or again after each
change.
"""

from broker.config_keys import BROKER_KEYS
from broker.config_names import UNNEEDED

_EFFECTIVE = frozenset(
    (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "group.consumer.assignment.interval.ms",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "min.insync.replicas",
        "oncelog.record.validation",
        "producer.id.expiration.ms",
        "unclean.leader.election.enable",
    )
)

# Kafka lets them change and one node does not need them: taken and kept, so that other people's scripts work.
_WITHOUT_EFFECT = frozenset(
    (
        "background.threads",
        "follower.fetch.last.tiered.offset.enable",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.fetch.max.wait.ms",
        "remote.list.offsets.request.timeout.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
    )
)


def has_effect_while_running(name: str) -> bool:
    """A setting of ours that may change while the broker runs."""
    return name in _EFFECTIVE


def may_change_while_running(name: str) -> bool:
    """Whether a change is taken. As in Kafka, a name that nobody knows is: plug-ins have names of their own."""
    if name in BROKER_KEYS:
        return name in _EFFECTIVE
    return name in _WITHOUT_EFFECT or name not in UNNEEDED


def is_security_setting(name: str) -> bool:
    """Kafka lets these change for one listener alone."""
    return name in UNNEEDED and name.startswith(("ssl.", "sasl."))
