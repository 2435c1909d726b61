"""Which settings of a broker may change while it runs (KIP-226).

Owns: the tables. They follow Kafka 4.3's DynamicBrokerConfig. Does not own: where changes are stored
(`broker.cluster.metadata_log`), how they take effect (`broker.config.live`). Invariant: a name in `_EFFECTIVE` is read
at each use, or again after each change.
"""

import re

from oncelog.broker.config.broker_keys import BROKER_KEYS, key_of_listener

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
        "group.share.assignment.interval.ms",
        "group.streams.assignment.interval.ms",
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
        "sasl.enabled.mechanisms",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "unclean.leader.election.enable",
    )
)

# Kafka can change them and one node does not need them: accepted and stored, so that existing scripts work.
_WITHOUT_EFFECT = frozenset(
    (
        "background.threads",
        "follower.fetch.last.tiered.offset.enable",
        "follower.replication.throttled.rate",
        "group.coordinator.cached.buffer.max.bytes",
        "leader.replication.throttled.rate",
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
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
    )
)

# Settings of security, which may differ between brokers.
_OF_ONE_BROKER = frozenset(
    (
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.keymanager.algorithm",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
_OF_ONE_LISTENER = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)
_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")
_LISTENERS_OF_ALL_BROKERS = frozenset(("max.connections", "max.connection.creation.rate", "num.network.threads"))
_JAAS = ".sasl.jaas.config"
OF_THE_CLUSTER = "min.insync.replicas"
"""The setting with one value for all brokers, always set, while eligible leader replicas are on (KIP-966)."""
JAVA_CLASS = "ssl.engine.factory.class"


def has_effect_while_running(name: str) -> bool:
    """Whether this is a setting of ours that can change while the broker runs."""
    of_listener = key_of_listener(name)
    if of_listener is None:
        return name in _EFFECTIVE
    return of_listener.name in _EFFECTIVE or of_listener.name in _OF_ONE_LISTENER or name.endswith(_JAAS)


def may_change_while_running(name: str) -> bool:
    """Whether a change is accepted. As in Kafka, unknown names are: they may belong to plug-ins."""
    if name in _WITHOUT_EFFECT or name in _OF_ONE_BROKER or name in _OF_ONE_LISTENER or name == JAVA_CLASS:
        return True
    if name in BROKER_KEYS:
        return name in _EFFECTIVE
    from oncelog.broker.config.kafka_names import UNNEEDED  # not at the start: a long table

    return name not in UNNEEDED


def is_of_one_listener(name: str) -> bool:
    """Whether Kafka can change the setting, a key store, only with the prefix of a listener."""
    return name in _OF_ONE_LISTENER


def is_of_one_broker(name: str) -> bool:
    """Whether the setting cannot be set for all brokers at once, as in Kafka."""
    of_listener = _LISTENER_PREFIX.fullmatch(name)
    return name in _OF_ONE_BROKER or (of_listener is not None and of_listener[1] not in _LISTENERS_OF_ALL_BROKERS)


def is_java_class(name: str) -> bool:
    """Whether the setting names a class that Kafka loads before it accepts the value; there is none to load here."""
    return name.endswith(JAVA_CLASS)


def is_security(name: str) -> bool:
    """Whether the setting is one of TLS or SASL."""
    return name.startswith(("ssl.", "sasl.")) or (
        name.startswith("listener.name.") and not name.endswith(tuple(_LISTENERS_OF_ALL_BROKERS))
    )
