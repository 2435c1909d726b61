"""Every broker setting that has an effect here: name, type, default, bounds, and one line on what it does.

Owns: the table. Does not own: the sources of values (`broker.config.settings`), topic settings
(`broker.config.topic_config`), names that Kafka knows and one node does not need (`broker.config.kafka_names`).
Invariants
- Names, types, bounds and defaults are those of Apache Kafka 4.3, except where the text says "here".
- Only keys that some part of the broker reads are listed; a test checks this.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from oncelog.broker.apis.compatibility import COMPATIBILITIES
from oncelog.broker.config.admin_address import check_otlp_endpoint, parse_http_address

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigType(Enum):
    """Kafka's own names (ConfigDef.Type); the value is DescribeConfigs' number for it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


# Python's int() and float() accept more than Java's: 1_000, nan, digits of other scripts.
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}\Z")
_DOUBLE_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_INTEGER_MAX = {ConfigType.INT: INT32_MAX, ConfigType.SHORT: INT16_MAX, ConfigType.LONG: INT64_MAX}


class NotAChoice(ValueError):
    """`item`, perhaps one of a list, is not among the allowed values."""

    def __init__(self, item: str, choices: tuple[str, ...]) -> None:
        super().__init__(f"String must be one of: {', '.join(choices)}")
        self.item = item


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: str | None
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    exception: int | None = None
    """One more allowed value, outside the bounds."""
    parse: Callable[[str], object] | None = None
    """Parses a value with its own syntax; raises ValueError."""

    def check(self, text: str) -> str:
        """The text as it is stored (trimmed, booleans in lower case). Raises ValueError with Kafka's message."""
        text = text.strip()
        match self.type:
            case ConfigType.BOOLEAN:
                text = text.lower()
                if text not in ("true", "false"):
                    raise ValueError("Expected value to be either true or false")
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                limit = _INTEGER_MAX[self.type]
                if not _INTEGER.match(text) or not -limit - 1 <= int(text) <= limit:
                    raise ValueError(f"Not a number of type {self.type.name}")
                self._check_bounds(int(text))
            case ConfigType.DOUBLE:
                if not _DOUBLE_TEXT.match(text):
                    raise ValueError("Not a number of type DOUBLE")
                self._check_bounds(float(text))
            case ConfigType.LIST:
                self._check_choices([item.strip() for item in text.split(",")] if text else [])
            case ConfigType.STRING:
                self._check_choices([text])
                if self.parse is not None:
                    self.parse(text)
        return text

    def _check_bounds(self, number: float) -> None:
        if self.exception is not None:
            if number != self.exception and not (self.minimum or 0) <= number <= (self.maximum or 0):
                raise ValueError(
                    f"Value must be between {self.minimum} and {self.maximum} or equal to {self.exception}"
                )
            return
        if self.minimum is not None and not number >= self.minimum:
            raise ValueError(f"Value must be at least {self.minimum}")
        if self.maximum is not None and not number <= self.maximum:
            raise ValueError(f"Value must be no more than {self.maximum}")

    def _check_choices(self, items: list[str]) -> None:
        for item in items if self.choices else ():
            if item not in self.choices:
                raise NotAChoice(item, self.choices)


def _parse_connection_limits(text: str) -> object:
    from oncelog.broker.config.connection_limits import parse_connection_limits  # not at the start

    return parse_connection_limits(text)


_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _SHORT, _LONG, _DOUBLE = ConfigType.INT, ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE
_PASSWORD = ConfigType.PASSWORD
_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

_TABLE = (
    # The node and its addresses.
    ConfigKey("node.id", _INT, "1", "The id of this node; required in Kafka, 1 here.", 0),
    ConfigKey("broker.id", _INT, "-1", "The older name of node.id.", -1),
    ConfigKey("cluster.id", _STRING, None, "The cluster id of a new data directory; random when empty."),
    ConfigKey("listeners", _LIST, "PLAINTEXT://127.0.0.1:9092", "Addresses to listen on; loopback by default here."),
    ConfigKey("advertised.listeners", _LIST, None, "Addresses advertised to clients; those of listeners when empty."),
    ConfigKey(
        "listener.security.protocol.map",
        _STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Listener names and their security protocols: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
    ),
    ConfigKey("controller.listener.names", _LIST, None, "Listeners of the controller, which are not opened here."),
    ConfigKey("log.dirs", _LIST, None, "The data directory; one here."),
    ConfigKey("log.dir", _LIST, "oncelog-data", "The data directory when log.dirs is not set; ./oncelog-data here."),
    # Connections.
    ConfigKey("connections.max.idle.ms", _LONG, "600000", "An idle connection is closed after this time; -1: never."),
    ConfigKey("max.connections", _INT, str(INT32_MAX), "Maximum number of connections; more wait to be accepted.", 0),
    ConfigKey("max.connections.per.ip", _INT, str(INT32_MAX), "Maximum number from one address; more are closed.", 0),
    ConfigKey(
        "max.connections.per.ip.overrides",
        _STRING,
        "",
        "host:count,…: addresses with a separate limit.",
        parse=_parse_connection_limits,
    ),
    ConfigKey("max.connection.creation.rate", _INT, str(INT32_MAX), "Maximum number of new connections per second.", 0),
    ConfigKey("socket.listen.backlog.size", _INT, "1024", "Connections that wait to be accepted; 1024 here.", 1),
    ConfigKey("socket.receive.buffer.bytes", _INT, "-1", "SO_RCVBUF; -1, the default here, leaves it to the OS.", -1),
    ConfigKey("socket.send.buffer.bytes", _INT, "-1", "SO_SNDBUF; -1, the default here, leaves it to the OS.", -1),
    # Security of listeners: with the prefix listener.name.NAME. for one of them.
    ConfigKey(
        "ssl.client.auth",
        _STRING,
        "none",
        "Whether clients show certificates; SASL_SSL: only with the prefix.",
        choices=("required", "requested", "none"),
    ),
    ConfigKey("ssl.enabled.protocols", _LIST, "TLSv1.2,TLSv1.3", "Versions of TLS.", choices=("TLSv1.2", "TLSv1.3")),
    ConfigKey(
        "ssl.cipher.suites", _LIST, "", "Cipher suites of TLS 1.2 by OpenSSL's or IANA's names; empty: all safe."
    ),
    ConfigKey("ssl.keystore.type", _STRING, "JKS", "PEM or PKCS12; JKS files cannot be read here."),
    ConfigKey("ssl.keystore.location", _STRING, None, "The file with the key and certificate of the broker."),
    ConfigKey("ssl.keystore.password", _PASSWORD, None, "The password of a PKCS12 file."),
    ConfigKey("ssl.keystore.key", _PASSWORD, None, "The private key itself, as PEM (KIP-651)."),
    ConfigKey("ssl.keystore.certificate.chain", _PASSWORD, None, "The certificates themselves, as PEM."),
    ConfigKey("ssl.key.password", _PASSWORD, None, "The password of an encrypted private key."),
    ConfigKey(
        "ssl.truststore.type", _STRING, "JKS", "PEM or PKCS12, of the certificates that clients' are signed with."
    ),
    ConfigKey("ssl.truststore.location", _STRING, None, "The file with these certificates."),
    ConfigKey("ssl.truststore.password", _PASSWORD, None, "The password of a PKCS12 file."),
    ConfigKey("ssl.truststore.certificates", _PASSWORD, None, "These certificates themselves, as PEM."),
    ConfigKey("ssl.allow.dn.changes", _BOOLEAN, "false", "A new certificate may have another distinguished name."),
    ConfigKey("ssl.allow.san.changes", _BOOLEAN, "false", "A new certificate may lack alternative names."),
    ConfigKey(
        "ssl.principal.mapping.rules",
        _STRING,
        "DEFAULT",
        "Which user a certificate stands for: DEFAULT, the whole name, or RULE:PATTERN/REPLACEMENT/[LU],….",
    ),
    ConfigKey(
        "sasl.enabled.mechanisms",
        _LIST,
        "GSSAPI",
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
    ),
    ConfigKey(
        "sasl.jaas.config",
        _PASSWORD,
        None,
        "Users of PLAIN, in Kafka's form; with the prefix listener.name.NAME.plain. only.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url",
        _STRING,
        None,
        "Where the keys of tokens are: https: or file:.",
    ),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.refresh.ms", _LONG, "3600000", "How long these keys are used."),
    ConfigKey("sasl.oauthbearer.expected.audience", _LIST, "", "A token is for one of these; unset: for anybody."),
    ConfigKey("sasl.oauthbearer.expected.issuer", _STRING, None, "Who issues tokens; unset: whoever has the keys."),
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", _INT, "30", "How far the clocks of issuer and broker may differ."),
    ConfigKey("sasl.oauthbearer.sub.claim.name", _STRING, "sub", "The claim that names the user."),
    ConfigKey("sasl.server.max.receive.size", _INT, "524288", "The largest request before the login is finished."),
    ConfigKey(
        "connection.failed.authentication.delay.ms", _INT, "100", "How long a failed login waits for its end.", 0
    ),
    ConfigKey(
        "connections.max.reauth.ms",
        _LONG,
        "0",
        "A client must log in again after this time, also per mechanism; 0: never.",
    ),
    ConfigKey(
        "delegation.token.secret.key",
        _PASSWORD,
        None,
        "Makes the HMACs of delegation tokens; without it there are none.",
    ),
    ConfigKey("delegation.token.max.lifetime.ms", _LONG, "604800000", "How long a token can be renewed, at most.", 1),
    ConfigKey(
        "delegation.token.expiry.time.ms", _LONG, "86400000", "How long a token counts until it must be renewed.", 1
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms", _LONG, "3600000", "How often expired tokens are removed.", 1
    ),
    ConfigKey(
        "oncelog.authentication.timeout.ms",
        _INT,
        "30000",
        "A connection is closed that has not finished its TLS handshake and its login after this time.",
        1,
    ),
    # Who may do what.
    ConfigKey(
        "authorizer.class.name",
        _STRING,
        "",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer, or as files before Kafka 4 name it, "
        "kafka.security.authorizer.AclAuthorizer: requests need rights; empty: everything is allowed.",
        choices=(
            "",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "kafka.security.authorizer.AclAuthorizer",
        ),
    ),
    ConfigKey("super.users", _STRING, "", "Principals that may do everything, such as User:admin;User:root."),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        _BOOLEAN,
        "false",
        "Whether everything is allowed on a resource to which no access control entry applies.",
    ),
    # Requests.
    ConfigKey("quota.window.num", _INT, "11", "Samples over which the rates of client quotas are measured.", 1),
    ConfigKey("quota.window.size.seconds", _INT, "1", "The time of each of these samples.", 1),
    ConfigKey(
        "controller.quota.window.num",
        _INT,
        "11",
        "Samples' worth of controller_mutation_rate that may be used at once.",
        1,
    ),
    ConfigKey("controller.quota.window.size.seconds", _INT, "1", "The time of each of these samples.", 1),
    ConfigKey("socket.request.max.bytes", _INT, "104857600", "The largest request that is accepted.", 1),
    ConfigKey(
        "queued.max.requests", _INT, "500", "Requests of one connection (here) without a response before it waits.", 1
    ),
    ConfigKey(
        "max.request.partition.size.limit",
        _INT,
        "2000",
        "Maximum number of partitions in one DescribeTopicPartitions response.",
        1,
    ),
    ConfigKey(
        "queued.max.request.bytes",
        _LONG,
        "268435456",
        "Memory for requests that are incomplete or not started yet; 256 MiB here, -1: no limit.",
    ),
    ConfigKey(
        "oncelog.unread.answers.max.bytes",
        _LONG,
        "268435456",
        "Memory for unsent responses; near it, a Fetch returns less at a time.",
        1048576,
    ),
    ConfigKey("fetch.max.bytes", _INT, "57671680", "Maximum number of bytes in one Fetch response.", 1024),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots", _INT, "1000", "Maximum number of fetch sessions in the cache.", 0
    ),
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
    # The log: defaults of the topic settings (broker.topic_config has the pairs).
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
    ConfigKey("log.flush.interval.ms", _LONG, None, "Default of flush.ms."),
    ConfigKey("log.flush.scheduler.interval.ms", _LONG, str(INT64_MAX), "Default of log.flush.interval.ms."),
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
    ConfigKey("log.roll.hours", _INT, "168", "Default of segment.ms, in hours.", 1),
    ConfigKey("log.roll.ms", _LONG, None, "Default of segment.ms; overrides log.roll.hours."),
    ConfigKey("log.roll.jitter.hours", _INT, "0", "Default of segment.jitter.ms, in hours.", 0),
    ConfigKey("log.roll.jitter.ms", _LONG, None, "Default of segment.jitter.ms; overrides log.roll.jitter.hours."),
    ConfigKey("log.segment.bytes", _INT, "1073741824", "Default of segment.bytes.", 1048576),
    ConfigKey("log.segment.delete.delay.ms", _LONG, "60000", "Default of file.delete.delay.ms.", 0),
    ConfigKey("message.max.bytes", _INT, "1048588", "Default of max.message.bytes: the largest record batch.", 0),
    ConfigKey("min.insync.replicas", _INT, "1", "Default of min.insync.replicas; one node has one replica.", 1),
    ConfigKey("unclean.leader.election.enable", _BOOLEAN, "false", "Default of unclean.leader.election.enable."),
    # Idempotent and transactional producers.
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
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    ),
    ConfigKey("offset.metadata.max.bytes", _INT, "4096", "The longest metadata of a committed offset."),
    ConfigKey("offsets.retention.minutes", _INT, "10080", "How long an empty group keeps its offsets.", 1),
    ConfigKey("offsets.retention.check.interval.ms", _LONG, "600000", "How often to check for expired offsets.", 1),
    ConfigKey("offsets.topic.num.partitions", _INT, "50", "Partitions of __consumer_offsets.", 1),
    ConfigKey("offsets.topic.segment.bytes", _INT, "104857600", "segment.bytes of __consumer_offsets.", 1),
    # Our own.
    ConfigKey(
        "oncelog.admin.clock.ahead.ms",
        _LONG,
        "0",
        "For tests: how far the wall clock is ahead of the machine's at the start; needs oncelog.admin.listen.",
        0,
    ),
    ConfigKey(
        "oncelog.admin.faults",
        _STRING,
        None,
        "A file with a JSON list of fault rules that are active from the start on; needs oncelog.admin.listen.",
    ),
    ConfigKey(
        "oncelog.admin.listen",
        _STRING,
        None,
        "HOST:PORT, or https://HOST:PORT, for fault injection and a view of open transactions; off when empty.",
        parse=parse_http_address,
    ),
    ConfigKey(
        "oncelog.admin.token.file",
        _STRING,
        None,
        "A file with the token that requests to oncelog.admin.listen must have; beyond loopback there must be one.",
    ),
    ConfigKey(
        "oncelog.compat",
        _STRING,
        "oncelog",
        "kafka: as Apache Kafka even where the protocol allows more. oncelog: more is kept, timeouts are exact.",
        choices=tuple(COMPATIBILITIES),
    ),
    ConfigKey(
        "oncelog.feature.transaction.version",
        _INT,
        "2",
        "transaction.version of a new data directory; afterwards `kafka-features.sh` and UpdateFeatures change it.",
        0,
        2,
    ),
    ConfigKey(
        "oncelog.flush.policy",
        _STRING,
        "fsync",
        "fsync: acknowledged means on disk. os: left to the page cache, as a one-replica Kafka. memory: nothing kept.",
        choices=("fsync", "os", "memory"),
    ),
    ConfigKey(
        "oncelog.flush.loop.appends",
        _INT,
        "64",
        "A flush round of up to this many batches is synced without a thread while syncs take under 2 ms; 0: never.",
        0,
    ),
    ConfigKey(
        "oncelog.http.host.names",
        _LIST,
        "",
        "Names of this machine in the Host header of HTTP requests, beside localhost and advertised.listeners.",
    ),
    ConfigKey(
        "oncelog.journal.file.bytes",
        _INT,
        "16777216",
        "The size of each of the two journal files (`fsync`): with more, segments are synced less often.",
        4096,
    ),
    ConfigKey(
        "oncelog.storage",
        _STRING,
        "local",
        "local: files in the data directory. memory: no files, and all data is lost when the process ends.",
        choices=("local", "memory"),
    ),
    ConfigKey(
        "oncelog.metrics.listen",
        _STRING,
        None,
        "HOST:PORT, or https://HOST:PORT, for Prometheus' /metrics, /healthz, /readyz and /witness; off when empty.",
        parse=parse_http_address,
    ),
    ConfigKey(
        "oncelog.metrics.token.file",
        _STRING,
        None,
        "A file with the token that requests for /metrics and /witness must have; empty: none.",
    ),
    ConfigKey(
        "oncelog.metrics.max.series",
        _INT,
        "10000",
        "A metric with labels has at most so many series; the rest is counted in oncelog_series_left_out.",
        1,
    ),
    ConfigKey(
        "oncelog.otlp.endpoint",
        _STRING,
        None,
        "URL to which metrics are pushed as OTLP over HTTP (http://HOST:4318/v1/metrics); needs oncelog[otel].",
        parse=check_otlp_endpoint,
    ),
    ConfigKey("oncelog.otlp.interval.ms", _INT, "10000", "How often metrics are pushed as OTLP.", 10),
    ConfigKey(
        "oncelog.read.only",
        _BOOLEAN,
        "false",
        "Serve what is stored, and change nothing: requests that would are refused, the data directory is not written. "
        "An adopted directory is read-only until this was false at a start.",
    ),
    ConfigKey(
        "oncelog.record.validation",
        _STRING,
        "short",
        "short: header, CRC and a walk over lengths. full: every record, as Kafka does.",
        choices=("short", "full"),
    ),
    ConfigKey("oncelog.statsd.address", _STRING, None, "HOST:PORT to which metrics are sent as DogStatsD over UDP."),
    ConfigKey("oncelog.statsd.interval.ms", _INT, "10000", "How often metrics are sent as DogStatsD.", 10),
    ConfigKey(
        "oncelog.witness.enable",
        _BOOLEAN,
        "false",
        "Watch for mistakes of clients; `oncelog witness` shows them, through oncelog.metrics.listen.",
    ),
)

BROKER_KEYS = {key.name: key for key in _TABLE}

_LISTENER_PREFIX = "listener.name."
_LISTENER_FAMILIES = ("ssl.", "sasl.", "max.connections", "max.connection.creation.rate", "connections.max.reauth.ms")
_MECHANISM_FAMILIES = ("sasl.", "connections.max.reauth.ms")
_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")


def key_of_listener(name: str) -> ConfigKey | None:
    """The key in `listener.name.LISTENER.KEY` or `listener.name.LISTENER.MECHANISM.KEY`, all but the key in lower case
    as Kafka writes it there. None for a name without the prefix, and for a key that cannot be set so."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    rest = name.removeprefix(_LISTENER_PREFIX)
    dot = rest.find(".")
    while dot > 0:  # names of listeners may contain dots, too
        key = BROKER_KEYS.get(rest[dot + 1 :])
        if key is not None:
            is_of_mechanism = rest[:dot].rpartition(".")[2] in _MECHANISMS
            return key if key.name.startswith(_MECHANISM_FAMILIES if is_of_mechanism else _LISTENER_FAMILIES) else None
        dot = rest.find(".", dot + 1)
    return None
