"""A conversation about settings that any Kafka-compatible broker can be asked to have: describe, alter, list.

Owns: the questions, and which part of an answer counts: codes and texts, values with type, source and synonyms. What is
changed is asked for until it is seen, because Kafka's broker learns of it a moment after its controller.
"""

from collections.abc import Sequence
from typing import Any

from oncelog.broker.config.broker_keys import BROKER_KEYS
from tests.clients.asking import Broker, Told, parts_of
from tests.conformance.transcripts.admin_topics_transcript import TopicTalk, topic

UNKNOWN, TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]
_PATIENCE = 40
_NOT_IN_KAFKAS_TABLE = {"cluster.id", "super.users", "allow.everyone.if.no.acl.found"}
_KAFKAS = {name for name in BROKER_KEYS if not name.startswith("oncelog.")} - _NOT_IN_KAFKAS_TABLE


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = ConfigTalk(broker)
    talk.created(topic("settings"), topic("settings2"))
    yield from parts_of(talk, resources, node_ids, topics, brokers, security, groups, loggers, in_full, listed)


# --- asking -----------------------------------------------------------------------------------------------------------


_REFUSED = "responses.0(error_code error_message)"


class ConfigTalk(TopicTalk):
    def described(
        self, kind: int, name: str, keys: Sequence[str] | None = None, *, version: int = 4, synonyms: bool = True
    ) -> Any:
        """(code, text, entries) of one resource; the documentation is each project's own."""
        entry = "name value read_only config_source is_sensitive config_type synonyms(name value source)"
        shape = f"results.0(error_code error_message configs{{{entry}}})"
        asked = {"resources": [(kind, name, keys)], "include_synonyms": synonyms}
        error, message, entries = self.ask("DescribeConfigs", version, shape, **asked)
        # Kafka sets it on all brokers by itself, because of ELR.
        return error, message, [entry for entry in entries if entry[0] != "min.insync.replicas"]

    def changed(
        self, kind: int, name: str, *changes: Change, version: int = 1, validate_only: bool = False
    ) -> tuple[str, str | None]:
        fields = {"resources": [(kind, name, changes)], "validate_only": validate_only}
        answer: tuple[str, str | None] = self.ask("IncrementalAlterConfigs", version, _REFUSED, **fields)
        return answer

    def tried(self, kind: int, name: str, *changes: Change) -> tuple[str, str | None]:
        return self.changed(kind, name, *changes, validate_only=True)

    def replaced(
        self, kind: int, name: str, *values: tuple[str, str | None], version: int = 2, validate_only: bool = False
    ) -> tuple[str, str | None]:
        fields = {"resources": [(kind, name, values)], "validate_only": validate_only}
        answer: tuple[str, str | None] = self.ask("AlterConfigs", version, _REFUSED, **fields)
        return answer

    def value(self, kind: int, name: str, key: str) -> Any:
        entries = self.described(kind, name, [key])[2]
        return entries[0][1:] if entries else None

    def settled(self, kind: int, name: str, key: str, expected: str | None) -> Any:
        """The setting once it has that value, or what it has after a while."""
        for _ in range(_PATIENCE):
            found = self.value(kind, name, key)
            if (found[0] if found else None) == expected:
                break
            self.broker.let_pass(50)
        return found


# --- the parts --------------------------------------------------------------------------------------------------------


def resources(talk: ConfigTalk) -> Told:
    asked = [
        (TOPIC, "settings"),
        (TOPIC, "nowhere"),
        (TOPIC, ""),
        (TOPIC, "a b"),
        (BROKER, ""),
        (BROKER, "1"),
        (BROKER, "2"),
        (BROKER, "x"),
        (LOGGER, "1"),
        (LOGGER, ""),
        (LOGGER, "2"),
        (GROUP, "nobody"),
        (GROUP, ""),
        (CLIENT_METRICS, "nobody"),
        (CLIENT_METRICS, ""),
        (UNKNOWN, "x"),
        (3, "x"),
        (99, "x"),
    ]
    for kind, name in asked:
        for version in (1, 4):
            keys = [] if kind == TOPIC else ["consumer.session.timeout.ms", "interval.ms", "num.partitions", "root"]
            yield f"describe {kind} {name!r}, version {version}", talk.described(kind, name, keys, version=version)
    yield "change of client metrics", talk.tried(CLIENT_METRICS, "subscription", ("interval.ms", SET, "1000"))
    keys = ["retention.ms", "no.such.key", "retention.ms"]
    yield "named settings", talk.described(TOPIC, "settings", keys)
    yield "without synonyms", talk.described(TOPIC, "settings", ["retention.ms"], synonyms=False)
    for kind, name in asked:
        if kind == CLIENT_METRICS:
            continue
        yield f"change {kind} {name!r}", talk.tried(kind, name, ("no.such.key", SET, "1"))
        if (kind, name) != (BROKER, ""):  # Kafka insists on min.insync.replicas there, because of ELR
            yield f"replace {kind} {name!r}", talk.replaced(kind, name, ("no.such.key", "1"), validate_only=True)
        yield f"no change {kind} {name!r}", talk.tried(kind, name)


def node_ids(talk: ConfigTalk) -> Told:
    """Texts that are or are not a number to Java's Integer.parseInt. Our message cuts long texts short, so only their
    beginnings count.
    """
    for text in ("+1", "01", "-1", "+-1", "-", "+", " 1", "1_0", "\u0661", "2147483648", "1" * 5_000):
        name = f"{text[:12]}, {len(text)} long" if len(text) > 12 else repr(text)
        for kind in (BROKER, LOGGER):
            yield f"describe {kind} {name}", _begin(talk.described(kind, text, ["num.io.threads"]))
            yield f"change {kind} {name}", _begin(talk.tried(kind, text, ("no.such.key", DELETE, None)))
        answer = talk.replaced(BROKER, text, ("no.such.key", "1"), validate_only=True)
        yield f"replace {name}", _begin(answer)


def _begin(answer: Sequence[Any]) -> tuple[str, str]:
    return answer[0], (answer[1] or "")[:200]


def topics(talk: ConfigTalk) -> Told:
    changes: tuple[tuple[Change, ...], ...] = (
        (("retention.ms", SET, None),),
        (("retention.ms", SET, ""),),
        (("retention.ms", SET, "soon"),),
        (("retention.ms", SET, "-2"),),
        (("retention.ms", DELETE, None),),
        (("retention.ms", DELETE, "anything"),),
        (("retention.ms", APPEND, "5"),),
        (("retention.ms", SUBTRACT, "5"),),
        (("retention.ms", 9, "5"),),
        (("no.such.key", DELETE, None),),
        (("no.such.key", APPEND, "1"),),
        (("retention.ms", SET, "5"), ("retention.ms", SET, "6")),
        (("retention.ms", SET, "5"), ("retention.ms", DELETE, None)),
        (("retention.ms", SET, "5"), ("no.such.key", SET, "6")),
        (("retention.ms", SET, "5"), ("segment.bytes", SET, None), ("no.such.key", SET, None)),
        (("cleanup.policy", APPEND, "compact"),),
        (("cleanup.policy", APPEND, "shred"),),
        (("cleanup.policy", APPEND, None),),
        (("cleanup.policy", APPEND, ""),),
        (("cleanup.policy", SUBTRACT, "delete"),),
        (("cleanup.policy", SUBTRACT, "nothing"),),
        (("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")),
        (("remote.storage.enable", SET, "true"),),
        (("compression.gzip.level", SET, "0"),),
        (("leader.replication.throttled.replicas", SET, "bogus"),),
    )
    for change in changes:
        yield f"tried {change}", talk.tried(TOPIC, "settings", *change)
    for version in (0, 1):
        told = talk.changed(TOPIC, "settings", ("retention.ms", SET, "5"), version=version, validate_only=True)
        yield f"tried, version {version}", told
    yield "nothing was changed", talk.value(TOPIC, "settings", "retention.ms")

    def done(key: str, operation: int, text: str | None, expected: str) -> Any:
        answer = talk.changed(TOPIC, "settings", (key, operation, text))
        return answer, talk.settled(TOPIC, "settings", key, expected)

    yield "set", done("retention.ms", SET, "5000", "5000")
    yield "set with spaces", done("retention.ms", SET, " 7000 ", " 7000 ")
    yield "appended", done("cleanup.policy", APPEND, "compact", "delete,compact")
    yield "appended again", done("cleanup.policy", APPEND, "compact", "delete,compact")
    yield "subtracted", done("cleanup.policy", SUBTRACT, "delete", "compact")
    yield "subtracted the last", done("cleanup.policy", SUBTRACT, "compact", "")
    yield "deleted", done("cleanup.policy", DELETE, None, "delete")
    yield "upper case", done("preallocate", SET, "TRUE", "TRUE")
    yield "throttled", done("leader.replication.throttled.replicas", APPEND, "0:1", "0:1")
    yield "all", talk.described(TOPIC, "settings")
    twice = {"resources": [(TOPIC, name) for name in ("settings", "settings", "settings2")], "validate_only": True}
    shape = "responses(resource_name error_code error_message)"
    yield "one resource twice", talk.ask("IncrementalAlterConfigs", 1, shape, **twice)


# What a running Kafka lets change, and some that it does not.
_BROKER_CHANGES = (
    ("log.retention.ms", "5"),
    ("log.retention.ms", "soon"),
    ("log.retention.minutes", "5"),
    ("log.retention.hours", "5"),
    ("compression.gzip.level", "0"),
    ("log.cleanup.policy", "compact,shred"),
    ("log.segment.bytes", "5"),
    ("log.segment.bytes", "2000000"),
    ("message.max.bytes", "2000000"),
    ("message.max.bytes", "-1"),
    ("log.cleaner.backoff.ms", "5"),
    ("log.cleaner.enable", "false"),
    ("log.cleaner.dedupe.buffer.size", "2097152"),
    ("log.retention.check.interval.ms", "5"),
    ("compression.type", "gzip"),
    ("compression.type", "bogus"),
    ("max.connections", "5"),
    ("max.connections.per.ip", "5"),
    ("max.connections.per.ip.overrides", "127.0.0.1:5"),
    ("max.connection.creation.rate", "5"),
    ("num.io.threads", "4"),
    ("num.network.threads", "4"),
    ("num.replica.fetchers", "2"),
    ("background.threads", "9"),
    ("auto.create.topics.enable", "false"),
    ("delete.topic.enable", "false"),
    ("num.partitions", "5"),
    ("socket.request.max.bytes", "5000"),
    ("fetch.max.bytes", "5000"),
    ("node.id", "5"),
    ("broker.id", "5"),
    ("log.dirs", "/elsewhere"),
    ("advertised.listeners", "PLAINTEXT://x:1"),
    ("process.roles", "broker"),
    ("group.max.size", "5"),
    ("group.min.session.timeout.ms", "5"),
    ("group.initial.rebalance.delay.ms", "5"),
    ("offsets.retention.minutes", "5"),
    ("offset.metadata.max.bytes", "5"),
    ("transaction.max.timeout.ms", "5"),
    ("transactional.id.expiration.ms", "5"),
    ("producer.id.expiration.ms", "5"),
    ("producer.id.expiration.ms", "x"),
    ("transaction.partition.verification.enable", "false"),
    ("unclean.leader.election.enable", "true"),
    ("follower.replication.throttled.rate", "5"),
    ("leader.replication.throttled.rate", "5"),
    ("ssl.keystore.password", "secret"),
    ("no.such.key", "5"),
    ("retention.ms", "5"),
    ("listener.name.plaintext.max.connections", "5"),
    ("remote.fetch.max.wait.ms", "5"),
)


_SECURITY = {
    "sasl.client.callback.handler.class": "example.Class",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.jaas.config": "text",
    "sasl.kerberos.kinit.cmd": "/usr/bin/kinit",
    "sasl.kerberos.min.time.before.relogin": "60000",
    "sasl.kerberos.principal.to.local.rules": "DEFAULT",
    "sasl.kerberos.service.name": "text",
    "sasl.kerberos.ticket.renew.jitter": "0.05",
    "sasl.kerberos.ticket.renew.window.factor": "0.8",
    "sasl.login.callback.handler.class": "example.Class",
    "sasl.login.class": "example.Class",
    "sasl.login.connect.timeout.ms": "5",
    "sasl.login.read.timeout.ms": "5",
    "sasl.login.refresh.buffer.seconds": "300",
    "sasl.login.refresh.min.period.seconds": "60",
    "sasl.login.refresh.window.factor": "0.8",
    "sasl.login.refresh.window.jitter": "0.05",
    "sasl.login.retry.backoff.max.ms": "10000",
    "sasl.login.retry.backoff.ms": "100",
    "sasl.mechanism.controller.protocol": "GSSAPI",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "sasl.oauthbearer.assertion.algorithm": "RS256",
    "sasl.oauthbearer.assertion.claim.aud": "text",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "300",
    "sasl.oauthbearer.assertion.claim.iss": "text",
    "sasl.oauthbearer.assertion.claim.jti.include": "false",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "60",
    "sasl.oauthbearer.assertion.claim.sub": "text",
    "sasl.oauthbearer.assertion.file": "text",
    "sasl.oauthbearer.assertion.private.key.file": "text",
    "sasl.oauthbearer.assertion.private.key.passphrase": "text",
    "sasl.oauthbearer.assertion.template.file": "text",
    "sasl.oauthbearer.client.credentials.client.id": "text",
    "sasl.oauthbearer.client.credentials.client.secret": "text",
    "sasl.oauthbearer.clock.skew.seconds": "30",
    "sasl.oauthbearer.expected.audience": "",
    "sasl.oauthbearer.expected.issuer": "text",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "3600000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "10000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
    "sasl.oauthbearer.jwks.endpoint.url": "text",
    "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    "sasl.oauthbearer.scope": "text",
    "sasl.oauthbearer.scope.claim.name": "scope",
    "sasl.oauthbearer.sub.claim.name": "sub",
    "sasl.oauthbearer.token.endpoint.url": "text",
    "sasl.server.callback.handler.class": "example.Class",
    "sasl.server.max.receive.size": "524288",
    "ssl.allow.dn.changes": "false",
    "ssl.allow.san.changes": "false",
    "ssl.cipher.suites": "",
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.endpoint.identification.algorithm": "https",
    "ssl.engine.factory.class": "example.Class",
    "ssl.key.password": "text",
    "ssl.keymanager.algorithm": "SunX509",
    "ssl.keystore.certificate.chain": "text",
    "ssl.keystore.key": "text",
    "ssl.keystore.location": "text",
    "ssl.keystore.password": "text",
    "ssl.keystore.type": "JKS",
    "ssl.principal.mapping.rules": "DEFAULT",
    "ssl.protocol": "TLSv1.3",
    "ssl.provider": "text",
    "ssl.secure.random.implementation": "text",
    "ssl.trustmanager.algorithm": "PKIX",
    "ssl.truststore.certificates": "text",
    "ssl.truststore.location": "text",
    "ssl.truststore.password": "text",
    "ssl.truststore.type": "JKS",
}
"""Every such setting of Kafka, with its default or something of its type."""


def brokers(talk: ConfigTalk) -> Told:
    for key, text in _BROKER_CHANGES:
        for name in ("", "1"):
            yield f"tried {key}={text} on {name!r}", talk.tried(BROKER, name, (key, SET, text))
    for change in (
        ("log.retention.ms", SET, None),
        ("log.retention.ms", DELETE, None),
        ("log.retention.ms", APPEND, "5"),
        ("log.cleanup.policy", APPEND, "compact"),
        ("log.cleanup.policy", SUBTRACT, "delete"),
        ("no.such.key", DELETE, None),
        ("node.id", DELETE, None),
    ):
        yield f"tried {change}", talk.tried(BROKER, "1", change)

    def done(name: str, key: str, operation: int, text: str | None, expected: str | None) -> Any:
        answer = talk.changed(BROKER, name, (key, operation, text))
        return answer, talk.settled(BROKER, "1", key, expected)

    yield "cluster-wide", done("", "log.retention.ms", SET, "100000", "100000")
    yield "the topic follows", talk.value(TOPIC, "settings2", "retention.ms")
    yield "this broker's", done("1", "log.retention.ms", SET, "200000", "200000")
    yield "the topic follows it", talk.value(TOPIC, "settings2", "retention.ms")
    yield "the cluster's own", talk.described(BROKER, "")
    yield "of this broker, by name", talk.described(BROKER, "1", ["log.retention.ms", "num.partitions"])
    yield "of the cluster, by name", talk.described(BROKER, "", ["log.retention.ms", "num.partitions"])
    yield "this broker's goes", done("1", "log.retention.ms", DELETE, None, "100000")
    yield "the cluster's goes", done("", "log.retention.ms", DELETE, None, None)
    yield "the cluster's again", talk.described(BROKER, "")
    yield "message.max.bytes", done("", "message.max.bytes", SET, "2000000", "2000000")
    yield "the topic's max.message.bytes", talk.value(TOPIC, "settings2", "max.message.bytes")
    yield "message.max.bytes goes", done("", "message.max.bytes", DELETE, None, "1048588")
    yield "an unknown key is kept", talk.changed(BROKER, "", ("no.such.key", SET, "5"))
    while not talk.described(BROKER, "", ["no.such.key"])[2]:
        talk.broker.let_pass(50)
    for name in ("", "1"):
        yield f"and shown on {name!r}", talk.described(BROKER, name, ["no.such.key"])
    yield "and goes", talk.changed(BROKER, "", ("no.such.key", DELETE, None))
    for entry in talk.described(BROKER, "1")[2]:
        # What is listened on does not change while this broker runs.
        if entry[0] in _KAFKAS and entry[0] not in ("listeners", "listener.security.protocol.map"):
            yield f"whether {entry[0]} is read-only, sensitive, and its type", (entry[2], entry[4], entry[5])


def security(talk: ConfigTalk) -> Told:
    """Kafka lets ssl. and sasl. settings change for one broker, the stores of keys only for one listener."""
    for key, text in _SECURITY.items():
        for name in ("", "1"):
            for prefix in ("", "listener.name.plaintext.", "listener.name.elsewhere."):
                yield f"tried {prefix}{key} on {name!r}", talk.tried(BROKER, name, (prefix + key, SET, text))
        yield f"deleted {key}", talk.tried(BROKER, "1", (key, DELETE, None))
    both = (("ssl.key.password", SET, "a"), ("num.partitions", SET, "1"), ("ssl.keystore.key", SET, "b"))
    yield "several at once", talk.tried(BROKER, "1", *both)


def groups(talk: ConfigTalk) -> Told:
    for name in ("settings-group", ""):
        for key, text in (
            ("consumer.session.timeout.ms", "50000"),
            ("consumer.session.timeout.ms", "5"),
            ("consumer.session.timeout.ms", "600000"),
            ("consumer.session.timeout.ms", "soon"),
            ("consumer.session.timeout.ms", None),
            ("consumer.heartbeat.interval.ms", "6000"),
            ("consumer.heartbeat.interval.ms", "50"),
            ("consumer.heartbeat.interval.ms", "60000"),
            ("consumer.heartbeat.interval.ms", "0"),
            ("no.such.key", "1"),
            ("retention.ms", "1"),
        ):
            yield f"tried {key}={text} on {name!r}", talk.tried(GROUP, name, (key, SET, text))
    both = (("consumer.session.timeout.ms", SET, "45000"), ("consumer.heartbeat.interval.ms", SET, "15000"))
    yield "both", talk.tried(GROUP, "settings-group", *both)
    keys = ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]
    yield "unset", talk.described(GROUP, "settings-group", keys)
    answer = talk.changed(GROUP, "settings-group", ("consumer.session.timeout.ms", SET, "50000"))
    yield "set", (answer, talk.settled(GROUP, "settings-group", "consumer.session.timeout.ms", "50000"))
    answer = talk.changed(GROUP, "settings-group", ("consumer.session.timeout.ms", DELETE, None))
    yield "deleted", (answer, talk.settled(GROUP, "settings-group", "consumer.session.timeout.ms", "45000"))
    answer = talk.changed(GROUP, "settings-group", ("consumer.heartbeat.interval.ms", SET, "7000"))
    yield "kept", (answer, talk.settled(GROUP, "settings-group", "consumer.heartbeat.interval.ms", "7000"))


def loggers(talk: ConfigTalk) -> Told:
    for change in (
        ("no.such.Logger", SET, "DEBUG"),
        ("root", SET, "LOUD"),
        ("root", SET, None),
        ("root", SET, "info"),
        ("root", DELETE, None),
        ("root", APPEND, "DEBUG"),
        ("root", SUBTRACT, "DEBUG"),
        ("no.such.Logger", DELETE, None),
    ):
        yield f"tried {change}", talk.tried(LOGGER, "1", change)
    yield "set", talk.changed(LOGGER, "1", ("root", SET, "WARN"))
    found = talk.described(LOGGER, "1", ["root"])
    yield "shown", found
    yield "replaced", talk.replaced(LOGGER, "1", ("root", "INFO"))


def in_full(talk: ConfigTalk) -> Told:
    talk.changed(TOPIC, "settings2", ("retention.ms", SET, "1000"), ("segment.ms", SET, "2000"))
    talk.settled(TOPIC, "settings2", "segment.ms", "2000")
    for text in ("5", None, "", "soon", "-2"):
        told = talk.replaced(TOPIC, "settings2", ("retention.ms", text), validate_only=True)
        yield f"tried retention.ms={text}", told
    doubled = (("retention.ms", "5"), ("retention.ms", "6"))
    yield "tried one key twice", talk.replaced(TOPIC, "settings2", *doubled, validate_only=True)
    for version in range(3):
        told = talk.replaced(TOPIC, "settings2", ("retention.ms", "5"), version=version, validate_only=True)
        yield f"tried, version {version}", told
    answer = talk.replaced(TOPIC, "settings2", ("retention.ms", "3000"))
    yield "replaced", (answer, talk.settled(TOPIC, "settings2", "retention.ms", "3000"))
    yield "the other is gone", talk.value(TOPIC, "settings2", "segment.ms")
    answer = talk.replaced(TOPIC, "settings2")
    yield "emptied", (answer, talk.settled(TOPIC, "settings2", "retention.ms", "604800000"))
    yield "read-only", talk.replaced(BROKER, "1", ("node.id", "5"))
    answer = talk.replaced(BROKER, "1", ("log.retention.ms", "70000"))
    yield "of this broker", (answer, talk.settled(BROKER, "1", "log.retention.ms", "70000"))
    answer = talk.replaced(BROKER, "1")
    yield "of this broker, emptied", (answer, talk.settled(BROKER, "1", "log.retention.ms", None))


def listed(talk: ConfigTalk) -> Told:
    def asked(kinds: Sequence[int], version: int) -> Any:
        shape = "error_code config_resources{resource_type resource_name}"
        error, found = talk.ask("ListConfigResources", version, shape, resource_types=kinds)
        return error, [each for each in found if not each[1].startswith("__")]

    yield "version 0", asked([], 0)
    for kinds in (
        [],
        [TOPIC],
        [BROKER],
        [LOGGER],
        [GROUP],
        [CLIENT_METRICS],
        [TOPIC, GROUP],
        [UNKNOWN],
        [99],
        [TOPIC, 99],
    ):
        yield f"{kinds}", asked(kinds, 1)
    talk.changed(GROUP, "settings-group", ("consumer.heartbeat.interval.ms", DELETE, None))
    talk.settled(GROUP, "settings-group", "consumer.heartbeat.interval.ms", "5000")
    yield "once all is deleted", asked([GROUP, CLIENT_METRICS], 1)
    talk.delete("settings")
    yield "once a topic is deleted", asked([TOPIC], 1)
    answer = (talk.created(topic("settings")), talk.value(TOPIC, "settings", "retention.ms"))
    yield "its settings are gone with it", answer


# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "topics: tried (('retention.ms', 9, '5'),)": (
        "Kafka fails at an operation that it does not know",
        ("INVALID_REQUEST", "Unknown operation on a setting"),
    ),
    **{
        f"security: tried listener.name.plaintext.{key} on '1'": (
            "Kafka looks for the Java class of a listener that it has, and none is loaded here",
            ("NONE", None),
        )
        for key in (
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.server.callback.handler.class",
        )
    },
}
