"""Names that Kafka knows and one node does not need: accepted with a warning, so that existing files work.

Tables, made from the configuration definitions of Apache Kafka 4.3.0 (all names of AbstractKafkaConfig.CONFIG_DEF that
`broker.config.broker_keys` lacks, with Kafka's types and defaults) and from those of earlier versions. Owns no rule but
`is_known_prefix`. Invariant: what DescribeConfigs shows of them is true here, or says nothing that could be untrue.
"""

from dataclasses import dataclass

from oncelog.broker.config.config_key import ConfigKey, ConfigType

_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _SHORT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE
_PASSWORD, _CLASS = ConfigType.PASSWORD, ConfigType.CLASS

_Row = tuple[str, ConfigType, str | None] | tuple[str, ConfigType, str | None, int]
"""Name, type, Kafka's default or what is true here, and the least value that Kafka accepts."""


@dataclass(frozen=True, slots=True)
class UnneededGroup:
    title: str
    why: str
    """True of each setting of the group; docs/compare/compatibility.md has the table of groups."""
    settings: tuple[_Row, ...]
    is_fixed: bool = False
    """Whether DescribeConfigs shows what is true here, whatever the broker was started with."""
    is_internal: bool = False
    """Whether Kafka shows them only if they are given, as this broker does."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(row[0] for row in self.settings)


UNNEEDED_GROUPS = (
    UnneededGroup(
        "Replication",
        "there is no other broker: one replica of everything, and none to fetch, move or limit",
        (
            ("alter.log.dirs.replication.quota.window.num", _INT, "11", 1),
            ("alter.log.dirs.replication.quota.window.size.seconds", _INT, "1", 1),
            ("auto.leader.rebalance.enable", _BOOLEAN, "true"),
            ("controlled.shutdown.enable", _BOOLEAN, "true"),
            ("default.replication.factor", _INT, "1"),
            ("leader.imbalance.check.interval.seconds", _LONG, "300", 1),
            ("num.replica.fetchers", _INT, "1", 1),
            ("offsets.topic.replication.factor", _SHORT, "1", 1),
            ("replica.fetch.backoff.ms", _INT, "1000", 0),
            ("replica.fetch.max.bytes", _INT, "1048576", 0),
            ("replica.fetch.min.bytes", _INT, "1"),
            ("replica.fetch.response.max.bytes", _INT, "10485760", 0),
            ("replica.fetch.wait.max.ms", _INT, "500"),
            ("replica.lag.time.max.ms", _LONG, "30000"),
            ("replica.socket.receive.buffer.bytes", _INT, "65536"),
            ("replica.socket.timeout.ms", _INT, "30000"),
            ("replication.quota.window.num", _INT, "11", 1),
            ("replication.quota.window.size.seconds", _INT, "1", 1),
            ("share.coordinator.state.topic.min.isr", _SHORT, "1", 1),
            ("share.coordinator.state.topic.replication.factor", _SHORT, "1", 1),
            ("transaction.state.log.min.isr", _INT, "1", 1),
            ("transaction.state.log.replication.factor", _SHORT, "1", 1),
        ),
        is_fixed=True,
    ),
    UnneededGroup(
        "Limits of replication",
        "there is no other broker, and one data directory; they are set while a broker runs",
        (
            ("follower.replication.throttled.rate", _LONG, None, 0),
            ("leader.replication.throttled.rate", _LONG, None, 0),
            ("replica.alter.log.dirs.io.max.bytes.per.second", _LONG, None, 0),
        ),
        is_internal=True,
    ),
    UnneededGroup(
        "The controllers' quorum",
        "this node is its only voter, so that there is nothing to elect, fetch or wait for",
        (
            ("broker.heartbeat.interval.ms", _INT, "2000"),
            ("broker.session.timeout.ms", _INT, "9000"),
            ("controller.quorum.append.linger.ms", _INT, "25", 0),
            ("controller.quorum.auto.join.enable", _BOOLEAN, "false"),
            ("controller.quorum.bootstrap.servers", _LIST, ""),
            ("controller.quorum.election.backoff.max.ms", _INT, "1000", 0),
            ("controller.quorum.election.timeout.ms", _INT, "1000", 0),
            ("controller.quorum.fetch.max.bytes", _INT, "1048576", 1),
            ("controller.quorum.fetch.snapshot.max.bytes", _INT, "1048576", 1),
            ("controller.quorum.fetch.timeout.ms", _INT, "2000", 0),
            ("controller.quorum.request.timeout.ms", _INT, "2000", 0),
            ("controller.quorum.retry.backoff.ms", _INT, "20", 0),
            ("controller.quorum.voters", _LIST, ""),
            ("initial.broker.registration.timeout.ms", _INT, "60000"),
        ),
    ),
    UnneededGroup(
        "One directory, both roles",
        "a node has one data directory and is broker and controller",
        (
            ("cordoned.log.dirs", _LIST, ""),
            ("log.dir.failure.timeout.ms", _LONG, "30000", 1),
            ("num.replica.alter.log.dirs.threads", _INT, None),
            ("process.roles", _LIST, "broker,controller"),
        ),
        is_fixed=True,
    ),
    UnneededGroup(
        "Checks",
        "they cannot be switched off",
        (("transaction.partition.verification.enable", _BOOLEAN, "true"),),
        is_fixed=True,
    ),
    UnneededGroup(
        "Internal topics",
        "their records are written uncompressed",
        (
            ("offsets.topic.compression.codec", _INT, "0"),
            ("share.coordinator.state.topic.compression.codec", _INT, "0"),
        ),
        is_fixed=True,
    ),
    UnneededGroup(
        "The broker as a client of others",
        "it logs in nowhere and sends requests to no broker",
        (
            ("add.partitions.to.txn.retry.backoff.max.ms", _INT, "100", 0),
            ("add.partitions.to.txn.retry.backoff.ms", _INT, "20", 1),
            ("controller.socket.timeout.ms", _INT, "30000"),
            ("inter.broker.listener.name", _STRING, None),
            ("request.timeout.ms", _INT, "30000"),
            ("sasl.login.connect.timeout.ms", _INT, None),
            ("sasl.login.read.timeout.ms", _INT, None),
            ("sasl.login.refresh.buffer.seconds", _SHORT, "300"),
            ("sasl.login.refresh.min.period.seconds", _SHORT, "60"),
            ("sasl.login.refresh.window.factor", _DOUBLE, "0.8"),
            ("sasl.login.refresh.window.jitter", _DOUBLE, "0.05"),
            ("sasl.login.retry.backoff.max.ms", _LONG, "10000"),
            ("sasl.login.retry.backoff.ms", _LONG, "100"),
            ("sasl.mechanism.controller.protocol", _STRING, "GSSAPI"),
            ("sasl.mechanism.inter.broker.protocol", _STRING, "GSSAPI"),
            ("sasl.oauthbearer.assertion.algorithm", _STRING, "RS256"),
            ("sasl.oauthbearer.assertion.claim.aud", _STRING, None),
            ("sasl.oauthbearer.assertion.claim.exp.seconds", _INT, "300", 0),
            ("sasl.oauthbearer.assertion.claim.iss", _STRING, None),
            ("sasl.oauthbearer.assertion.claim.jti.include", _BOOLEAN, "false"),
            ("sasl.oauthbearer.assertion.claim.nbf.seconds", _INT, "60", 0),
            ("sasl.oauthbearer.assertion.claim.sub", _STRING, None),
            ("sasl.oauthbearer.assertion.file", _STRING, None),
            ("sasl.oauthbearer.assertion.private.key.file", _STRING, None),
            ("sasl.oauthbearer.assertion.private.key.passphrase", _PASSWORD, None),
            ("sasl.oauthbearer.assertion.template.file", _STRING, None),
            ("sasl.oauthbearer.client.credentials.client.id", _STRING, None),
            ("sasl.oauthbearer.client.credentials.client.secret", _PASSWORD, None),
            ("sasl.oauthbearer.scope", _STRING, None),
            ("sasl.oauthbearer.token.endpoint.url", _STRING, None),
            ("security.inter.broker.protocol", _STRING, "PLAINTEXT"),
            ("socket.connection.setup.timeout.max.ms", _LONG, "30000"),
            ("socket.connection.setup.timeout.ms", _LONG, "10000"),
        ),
    ),
    UnneededGroup(
        "Kerberos",
        "GSSAPI is not offered",
        (
            ("sasl.kerberos.kinit.cmd", _STRING, "/usr/bin/kinit"),
            ("sasl.kerberos.min.time.before.relogin", _LONG, "60000"),
            ("sasl.kerberos.principal.to.local.rules", _LIST, "DEFAULT"),
            ("sasl.kerberos.service.name", _STRING, None),
            ("sasl.kerberos.ticket.renew.jitter", _DOUBLE, "0.05"),
            ("sasl.kerberos.ticket.renew.window.factor", _DOUBLE, "0.8"),
        ),
    ),
    UnneededGroup(
        "Keys of tokens",
        "they are fetched once a minute at most, and an attempt that fails is not repeated before",
        (
            ("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", _LONG, "10000"),
            ("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", _LONG, "100"),
        ),
    ),
    UnneededGroup(
        "Scopes of tokens",
        "a token is accepted whatever its scopes are",
        (("sasl.oauthbearer.scope.claim.name", _STRING, "scope"),),
    ),
    UnneededGroup(
        "Start",
        "all listeners are opened together, once the logs are recovered",
        (("early.start.listeners", _LIST, None),),
    ),
    UnneededGroup(
        "Java classes",
        "none can be loaded; where Kafka's default is a class, what it does is done here",
        (
            ("alter.config.policy.class.name", _CLASS, None),
            ("client.quota.callback.class", _CLASS, None),
            ("config.providers", _LIST, ""),
            ("create.topic.policy.class.name", _CLASS, None),
            ("kafka.metrics.reporters", _LIST, ""),
            ("metric.reporters", _LIST, ""),
            (
                "principal.builder.class",
                _CLASS,
                "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            ),
            ("replica.selector.class", _STRING, None),
            ("sasl.client.callback.handler.class", _CLASS, None),
            ("sasl.login.callback.handler.class", _CLASS, None),
            ("sasl.login.class", _CLASS, None),
            (
                "sasl.oauthbearer.jwt.retriever.class",
                _CLASS,
                "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            ),
            (
                "sasl.oauthbearer.jwt.validator.class",
                _CLASS,
                "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
            ),
            ("sasl.server.callback.handler.class", _CLASS, None),
            ("security.providers", _STRING, None),
            ("ssl.engine.factory.class", _CLASS, None),
        ),
        is_fixed=True,
    ),
    UnneededGroup(
        "Tiered storage",
        "as in Kafka with remote.log.storage.system.enable=false",
        (
            ("follower.fetch.last.tiered.offset.enable", _BOOLEAN, "false"),
            ("remote.fetch.max.wait.ms", _INT, "500", 1),
            ("remote.list.offsets.request.timeout.ms", _LONG, "30000", 1),
            ("remote.log.index.file.cache.total.size.bytes", _LONG, "1073741824", 1),
            ("remote.log.manager.copier.thread.pool.size", _INT, "10", 1),
            ("remote.log.manager.copy.max.bytes.per.second", _LONG, "9223372036854775807", 1),
            ("remote.log.manager.copy.quota.window.num", _INT, "11", 1),
            ("remote.log.manager.copy.quota.window.size.seconds", _INT, "1", 1),
            ("remote.log.manager.expiration.thread.pool.size", _INT, "10", 1),
            ("remote.log.manager.fetch.max.bytes.per.second", _LONG, "9223372036854775807", 1),
            ("remote.log.manager.fetch.quota.window.num", _INT, "11", 1),
            ("remote.log.manager.fetch.quota.window.size.seconds", _INT, "1", 1),
            ("remote.log.manager.follower.thread.pool.size", _INT, "2", 1),
            ("remote.log.manager.task.interval.ms", _LONG, "30000", 1),
            ("remote.log.manager.thread.pool.size", _INT, "2", 1),
            ("remote.log.metadata.custom.metadata.max.bytes", _INT, "128", 0),
            (
                "remote.log.metadata.manager.class.name",
                _STRING,
                "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            ),
            ("remote.log.metadata.manager.class.path", _STRING, None),
            ("remote.log.metadata.manager.impl.prefix", _STRING, "rlmm.config."),
            ("remote.log.metadata.manager.listener.name", _STRING, None),
            ("remote.log.reader.max.pending.tasks", _INT, "100", 1),
            ("remote.log.reader.threads", _INT, "10", 1),
            ("remote.log.storage.manager.class.name", _STRING, None),
            ("remote.log.storage.manager.class.path", _STRING, None),
            ("remote.log.storage.manager.impl.prefix", _STRING, "rsm.config."),
            ("remote.log.storage.system.enable", _BOOLEAN, "false"),
        ),
        is_fixed=True,
    ),
    UnneededGroup(
        "Client telemetry",
        "as in Kafka without a plug-in for telemetry",
        (("telemetry.max.bytes", _INT, "1048576", 1),),
    ),
    UnneededGroup(
        "Requests that wait",
        "what has ended is removed at once, so that nothing is left to purge",
        (
            ("delete.records.purgatory.purge.interval.requests", _INT, "1"),
            ("fetch.purgatory.purge.interval.requests", _INT, "1000"),
            ("producer.purgatory.purge.interval.requests", _INT, "1000"),
            ("share.fetch.purgatory.purge.interval.requests", _INT, "1000"),
        ),
    ),
    UnneededGroup(
        "Threads",
        "one loop does the work; threads beside it are as many as the work needs",
        (
            ("background.threads", _INT, "10", 1),
            ("group.coordinator.background.threads", _INT, "2", 1),
            ("group.coordinator.threads", _INT, "4", 1),
            ("num.io.threads", _INT, "8", 1),
            ("num.network.threads", _INT, "3", 1),
            ("num.recovery.threads.per.data.dir", _INT, "2", 1),
            ("share.coordinator.threads", _INT, "1", 1),
        ),
    ),
    UnneededGroup(
        "Buffers of coordinators",
        "records are encoded and read without a buffer that is kept",
        (
            ("group.coordinator.cached.buffer.max.bytes", _INT, "1048588", 524288),
            ("offsets.load.buffer.size", _INT, "5242880", 1),
            ("share.coordinator.cached.buffer.max.bytes", _INT, "1048588", 524288),
            ("share.coordinator.load.buffer.size", _INT, "5242880", 1),
            ("transaction.state.log.load.buffer.size", _INT, "5242880", 1),
        ),
    ),
    UnneededGroup(
        "Appends of coordinators",
        "an answer waits for the next round of writing and no longer",
        (
            ("group.coordinator.append.linger.ms", _INT, "-1", -1),
            ("share.coordinator.append.linger.ms", _INT, "-1", -1),
        ),
    ),
    UnneededGroup(
        "Writes of coordinators",
        "an answer waits until its records are durable, however long; a client ends its wait itself",
        (
            ("offsets.commit.timeout.ms", _INT, "5000", 1),
            ("share.coordinator.write.timeout.ms", _INT, "5000", 1),
        ),
    ),
    UnneededGroup(
        "Compaction",
        "slices between requests do it, at a rate without a limit, in the memory of log.cleaner.dedupe.buffer.size",
        (
            ("log.cleaner.io.buffer.load.factor", _DOUBLE, "0.9"),
            ("log.cleaner.io.buffer.size", _INT, "524288", 0),
            ("log.cleaner.io.max.bytes.per.second", _DOUBLE, "1.7976931348623157E308"),
            ("log.cleaner.threads", _INT, "1", 0),
        ),
    ),
    UnneededGroup(
        "Checkpoints",
        "each round of writing notes how far it is durable, and the store itself decides on more",
        (
            ("log.flush.offset.checkpoint.interval.ms", _INT, "60000", 0),
            ("log.flush.start.offset.checkpoint.interval.ms", _INT, "60000", 0),
            ("replica.high.watermark.checkpoint.interval.ms", _LONG, "5000"),
        ),
    ),
    UnneededGroup(
        "Java's metrics",
        "the metrics here are counters that an observer samples",
        (
            ("kafka.metrics.polling.interval.secs", _INT, "10", 1),
            ("metrics.num.samples", _INT, "2", 1),
            ("metrics.recording.level", _STRING, "INFO"),
            ("metrics.sample.window.ms", _LONG, "30000", 1),
        ),
    ),
    UnneededGroup(
        "Segments of the metadata log",
        "snapshots bound it here (metadata.log.max.record.bytes.between.snapshots)",
        (
            ("metadata.log.dir", _STRING, None),
            ("metadata.log.segment.bytes", _INT, "1073741824", 8388608),
            ("metadata.log.segment.ms", _LONG, "604800000"),
            ("metadata.max.idle.interval.ms", _INT, "500", 0),
            ("metadata.max.retention.bytes", _LONG, "104857600"),
            ("metadata.max.retention.ms", _LONG, "604800000"),
        ),
    ),
    UnneededGroup(
        "Java's TLS",
        "OpenSSL does it here, without these providers and algorithms",
        (
            ("ssl.endpoint.identification.algorithm", _STRING, "https"),
            ("ssl.keymanager.algorithm", _STRING, "SunX509"),
            ("ssl.protocol", _STRING, "TLSv1.3"),
            ("ssl.provider", _STRING, None),
            ("ssl.secure.random.implementation", _STRING, None),
            ("ssl.trustmanager.algorithm", _STRING, "PKIX"),
        ),
    ),
    UnneededGroup(
        "Internal",
        "they are for tests of Kafka's own, or for what is not here",
        (
            ("controller.performance.always.log.threshold.ms", _LONG, "2000", 0),
            ("controller.performance.sample.period.ms", _LONG, "60000", 100),
            (
                "group.share.persister.class.name",
                _STRING,
                "org.apache.kafka.server.share.persister.DefaultStatePersister",
            ),
            ("internal.metadata.delete.delay.millis", _LONG, "60000"),
            ("internal.metadata.log.segment.bytes", _INT, None),
            ("internal.metadata.max.batch.size.in.bytes", _INT, "8388608"),
            ("remote.log.index.file.cache.ttl.ms", _LONG, "900000", -1),
            ("remote.log.manager.task.retry.backoff.max.ms", _LONG, "30000", 1),
            ("remote.log.manager.task.retry.backoff.ms", _LONG, "500", 1),
            ("remote.log.manager.task.retry.jitter", _DOUBLE, "0.2", 0),
            ("server.max.startup.time.ms", _LONG, "9223372036854775807", 0),
            ("unclean.leader.election.interval.ms", _LONG, "300000", 1),
            ("unstable.feature.versions.enable", _BOOLEAN, "false"),
        ),
        is_internal=True,
    ),
)

_ALGORITHM = "sasl.oauthbearer.assertion.algorithm"
_NOT_EMPTY = frozenset(
    (
        "remote.log.metadata.manager.class.name",
        "remote.log.metadata.manager.impl.prefix",
        "remote.log.metadata.manager.listener.name",
        "remote.log.storage.manager.class.name",
        "remote.log.storage.manager.impl.prefix",
    )
)
_MAXIMA = {
    "remote.log.manager.task.retry.jitter": 0.5,
    "sasl.oauthbearer.assertion.claim.exp.seconds": 86_400,
    "sasl.oauthbearer.assertion.claim.nbf.seconds": 3_600,
}
_CHOICES = {
    _ALGORITHM: ("ES256", "RS256"),
    "process.roles": ("broker", "controller"),
    "security.inter.broker.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}


def _key(group: UnneededGroup, row: _Row) -> ConfigKey:
    name, kind, default = row[:3]
    why = f"Without effect here: {group.why}."
    minimum = row[3] if len(row) == 4 else None
    return ConfigKey(
        name,
        kind,
        default,
        why,
        minimum,
        _MAXIMA.get(name),
        _CHOICES.get(name, ()),
        parse=_not_empty if name in _NOT_EMPTY else None,
        any_case=name == _ALGORITHM,
    )


def _not_empty(text: str) -> None:
    if not text:
        raise ValueError("String must be non-empty")


UNNEEDED_KEYS = {row[0]: _key(group, row) for group in UNNEEDED_GROUPS for row in group.settings}
UNNEEDED = frozenset(UNNEEDED_KEYS)
HIDDEN = frozenset(name for group in UNNEEDED_GROUPS if group.is_internal for name in group.names)
FIXED = frozenset(name for group in UNNEEDED_GROUPS if group.is_fixed for name in group.names)

# Kafka rejects or ignores these since the named version.
REMOVED = {
    "auto.include.jmx.reporter": "4.0",
    "broker.id.generation.enable": "4.0",
    "control.plane.listener.name": "4.0",
    "delegation.token.master.key": "4.0",
    "eligible.leader.replicas.enable": "4.0",
    "group.coordinator.new.enable": "4.0",
    "inter.broker.protocol.version": "4.0",
    "leader.imbalance.per.broker.percentage": "4.0",
    "log.message.downconversion.enable": "4.0",
    "log.message.format.version": "4.0",
    "log.message.timestamp.difference.max.ms": "4.0",
    "offsets.commit.required.acks": "4.0",
    "password.encoder.cipher.algorithm": "4.0",
    "password.encoder.iterations": "4.0",
    "password.encoder.key.length": "4.0",
    "password.encoder.keyfactory.algorithm": "4.0",
    "password.encoder.old.secret": "4.0",
    "password.encoder.secret": "4.0",
    "reserved.broker.max.id": "4.0",
    "zookeeper.clientCnxnSocket": "4.0",
    "zookeeper.connect": "4.0",
    "zookeeper.connection.timeout.ms": "4.0",
    "zookeeper.max.in.flight.requests": "4.0",
    "zookeeper.metadata.migration.enable": "4.0",
    "zookeeper.metadata.migration.min.batch.size": "4.0",
    "zookeeper.session.timeout.ms": "4.0",
    "zookeeper.set.acl": "4.0",
    "advertised.host.name": "3.0",
    "advertised.port": "3.0",
    "host.name": "3.0",
    "port": "3.0",
    "quota.consumer.default": "3.0",
    "quota.producer.default": "3.0",
}

# Families of names: settings of one listener, of plug-ins, and of other vendors' additions to Kafka.
_PREFIXES = (
    "listener.name.",
    "sasl.",
    "ssl.",
    "zookeeper.ssl.",
    "rsm.config.",
    "rlmm.config.",
    "config.providers.",
    "metrics.context.",
    "kafka.metrics.",
    "confluent.",
    "client.quota.",
    "auto.balancer.",
    "log4j.",
)


def is_known_prefix(name: str) -> bool:
    return name.startswith(_PREFIXES)
