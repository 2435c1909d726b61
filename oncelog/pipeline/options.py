"""The options of `format("oncelog")`, under the names that Spark's Kafka source and sink give them.

Owns: one table of options, another of the settings that `kafka.` passes to the client; parsing; the sentences about
what is wrong. Does not own: what an option does. Invariant: what `parse` returns has a value for every option of that
door, and nothing that a user wrote was ignored without a word in the table.

Spark hands the names over in lower case; any case is accepted, as Spark does.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal, NoReturn, cast

from oncelog.client import AdminOptions, AdminSettings, ConfigError, ConsumerSettings, ProducerSettings, SecurityOptions
from oncelog.client.wire.security import security_of
from oncelog.pipeline.option_values import (
    MARKER_TOPIC,
    assignment,
    boolean,
    duration_ms,
    exactly,
    offsets,
    one_of,
    output_name,
    pattern,
    positive,
    text,
    timestamp_ms,
    timestamps,
    topics,
)
from oncelog.protocol.names import nearest, owner_of

Door = Literal["read", "readStream", "write", "writeStream"]
"""The four ways into the format, by the names of Spark's own methods."""
READ: tuple[Door, ...] = ("read", "readStream")
WRITE: tuple[Door, ...] = ("write", "writeStream")
EVERY: tuple[Door, ...] = READ + WRITE
_BATCH: tuple[Door, ...] = ("read",)
_STREAM: tuple[Door, ...] = ("readStream",)


class OptionError(ValueError):
    """Raised if an option is unknown, missing, or has an impossible value; the message names it and what to write."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` is what `parse` returns for it when it is absent; None means "not set"."""

    name: str
    doors: tuple[Door, ...]
    parse: Callable[[str], Any]
    default: Any
    about: str


BOOTSTRAP = "kafka.bootstrap.servers"
CHOICES = ("subscribe", "subscribePattern", "assign")
OPTIONS = (
    Option(BOOTSTRAP, EVERY, text, None, "Addresses of brokers, `host:port,host:port`. Required."),
    Option("subscribe", READ, topics, None, "Topics to read, separated by commas. One of these three is required."),
    Option("subscribePattern", READ, pattern, None, "A regular expression; read the topics whose whole name matches."),
    Option("assign", READ, assignment, None, 'Partitions to read, as JSON: `{"topic": [0, 2]}`.'),
    Option(
        "startingOffsets",
        READ,
        offsets,
        None,
        'Where to start: `earliest`, `latest`, or JSON by topic and partition (`{"topic": {"0": 23, "1": -2}}`; -2 is '
        "earliest, -1 latest). Default: `latest` for a stream, `earliest` for a batch. A stream that has a checkpoint "
        "continues from it; partitions that are added later start at their beginning.",
    ),
    Option("endingOffsets", _BATCH, offsets, "latest", "Where to end, exclusively: `latest`, or JSON as above."),
    Option("startingTimestamp", READ, timestamp_ms, None, "Start at the first record of this time (ms) or later."),
    Option("endingTimestamp", _BATCH, timestamp_ms, None, "End before the first record of this time (ms) or later."),
    Option(
        "startingOffsetsByTimestamp",
        READ,
        timestamps,
        None,
        'The same for each partition, as JSON: `{"topic": {"0": 1577836800000}}`.',
    ),
    Option("endingOffsetsByTimestamp", _BATCH, timestamps, None, "The same for the end."),
    Option(
        "startingOffsetsByTimestampStrategy",
        READ,
        one_of("error", "latest"),
        "error",
        "What a starting time that is later than every record means: `error`, or start at `latest`.",
    ),
    Option(
        "failOnDataLoss",
        READ,
        boolean,
        True,
        "`true`: stop with a sentence about what was lost, when a topic was deleted or created again, has fewer "
        "partitions, was shortened by retention, or ends before the checkpoint. `false`: continue; the loss is logged, "
        "and counted where its size is known.",
    ),
    Option("maxOffsetsPerTrigger", _STREAM, positive, None, "The most offsets in a batch, shared by the partitions."),
    Option("minOffsetsPerTrigger", _STREAM, positive, None, "Wait until there are so many, or until maxTriggerDelay."),
    Option("maxTriggerDelay", _STREAM, duration_ms, 900_000, "How long minOffsetsPerTrigger may wait: `15m`, `30s`."),
    Option(
        "minPartitions",
        READ,
        positive,
        None,
        "Split the partitions into at least so many tasks; small ranges share a task otherwise.",
    ),
    Option("maxRecordsPerPartition", READ, positive, None, "Split the partitions into tasks of at most so many."),
    Option("includeHeaders", EVERY, boolean, False, "A column `headers` of `array<struct<key string, value binary>>`."),
    Option("topic", WRITE, text, None, "The topic of every row; without it each row names its own in column `topic`."),
    Option(
        "checkpointLocation", ("writeStream",), text, None, "Spark's own: the directory of the checkpoint. Required."
    ),
    Option(
        "sinkId",
        ("writeStream",),
        text,
        None,
        "The transactional id, and the marker's key, where rules for names demand another than `spark-sink-QUERY_ID`. "
        "Of one query only.",
    ),
    Option(
        "runId",
        ("write",),
        text,
        None,
        "Publish once for this id to each topic, however often the job is run again; with other rows it is refused.",
    ),
    Option(
        "outputName",
        ("write",),
        output_name,
        None,
        "Distinguishes writes of one `runId` to one topic, or to the topics that their rows name. Default: the "
        "topic, or `rows` without the option `topic`.",
    ),
    Option(
        "commitGroup",
        ("readStream", "writeStream"),
        text,
        None,
        "A consumer group whose offsets say where the query is, for tools that show lag. On the sink they are "
        "committed in the transaction of each micro-batch; on the source, for a query without this sink, once each one "
        "is done. No consumer may join the group, and nothing reads its offsets here.",
    ),
    Option("markerTopic", WRITE, text, MARKER_TOPIC, "Where the markers are: a compacted topic."),
    Option(
        "spoolLocation",
        WRITE,
        text,
        None,
        "A directory for what is encoded and not published yet, on a file system that driver and executors share. "
        "Default: the driver's directory for temporary files. Executors that do not see it send everything through "
        "Spark's driver, at most spark.driver.maxResultSize a batch.",
    ),
    Option("queryName", ("writeStream",), text, None, "Spark's own: the name of the query."),
    Option("groupIdPrefix", READ, text, None, "Without effect: nothing joins a consumer group."),
    Option("kafkaConsumer.pollTimeoutMs", READ, text, None, "Without effect: see `kafka.default.api.timeout.ms`."),
    Option("fetchOffset.numRetries", READ, text, None, "Without effect: see `kafka.default.api.timeout.ms`."),
    Option("fetchOffset.retryIntervalMs", READ, text, None, "Without effect: see `kafka.retry.backoff.ms`."),
)
_BY_KEY = {option.name.lower(): option for option in OPTIONS}

READ_SETTINGS = (
    "isolation.level",
    "client.id",
    "request.timeout.ms",
    "default.api.timeout.ms",
    "retry.backoff.ms",
    "fetch.max.bytes",
    "max.partition.fetch.bytes",
    "check.crcs",
)
"""The settings after `kafka.` for reading; the default of `isolation.level` is read_committed."""
WRITE_SETTINGS = (
    "client.id",
    "request.timeout.ms",
    "delivery.timeout.ms",
    "retry.backoff.ms",
    "max.block.ms",
    "max.request.size",
    "batch.size",
    "linger.ms",
    "compression.type",
    "transaction.timeout.ms",
    "acks",
    "enable.idempotence",
    "buffer.memory",
    "max.in.flight.requests.per.connection",
)
"""The settings after `kafka.` for writing."""
SECURITY_SETTINGS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "sasl.tokenauth",
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
"""The settings after `kafka.` for either: the options of TLS and SASL of every client."""
TOKEN_SETTINGS = (
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.header.urlencode",
)
"""The settings after `kafka.` for a login by OAUTHBEARER, besides those above."""
_CALLBACK_HANDLER = "sasl.login.callback.handler.class"
_PEM = ("ssl.truststore.type", "ssl.keystore.type")


def _by_name(names_by_text: Mapping[str, str]) -> dict[str, str]:
    return {name: text for text, names in names_by_text.items() for name in names.split()}


WITHOUT_EFFECT = _by_name(
    {
        "the checkpoint holds the progress, and `commitGroup` shows it": "group.id auto.commit.interval.ms",
        "nothing joins a consumer group": """
            session.timeout.ms heartbeat.interval.ms max.poll.interval.ms group.instance.id group.protocol
            group.remote.assignor partition.assignment.strategy
            internal.throw.on.fetch.stable.offset.unsupported""",
        "nothing joins a share group": "share.acknowledgement.mode share.acquire.mode",
        "records are read by the batch": "max.poll.records",
        "only what is stable already is fetched": "fetch.min.bytes fetch.max.wait.ms",
        "topics and partitions are looked up for each batch": """
            metadata.max.age.ms metadata.max.idle.ms metadata.recovery.strategy
            metadata.recovery.rebootstrap.trigger.ms""",
        "nothing here creates a topic": "allow.auto.create.topics",
        "subscribePattern leaves out internal topics, as Kafka's clients do": "exclude.internal.topics",
        "the leader is read and written": "client.rack",
        "a key selects the partition that Java's producer selects; rows without one fill a batch for each": """
            partitioner.class partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
            partitioner.ignore.keys""",
        "the time is what limits sending again: `kafka.delivery.timeout.ms`": "retries",
        "the pause does not grow: `kafka.retry.backoff.ms`": """
            retry.backoff.max.ms reconnect.backoff.ms reconnect.backoff.max.ms""",
        "connections live as long as a batch or a task": "connections.max.idle.ms",
        "connecting is part of the time that a request has": """
            socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms""",
        "the system chooses the sizes of its buffers": "receive.buffer.bytes send.buffer.bytes",
        "every address of a name is tried": "client.dns.lookup",
        "metrics are those of the query": """
            metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
            enable.metrics.push""",
        "each codec compresses at its usual level": """
            compression.gzip.level compression.lz4.level compression.zstd.level""",
        "a transaction ends with its micro-batch": "transaction.two.phase.commit.enable",
        "a choice among Java's implementations": """
            ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation ssl.provider
            security.providers""",
        "each login takes a new token, and waits ten seconds for it": """
            sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
            sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
            sasl.login.retry.backoff.ms sasl.login.retry.backoff.max.ms""",
        "the broker checks the token": """
            sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
            sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
            sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
            sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name""",
        "the newest TLS that the broker speaks is taken, 1.2 or 1.3": "ssl.protocol",
    }
)
"""Settings of Kafka's clients that are accepted, and why they have nothing to act on."""
REFUSED = _by_name(
    {
        "use startingOffsets and failOnDataLoss": "auto.offset.reset",
        "key is binary: cast it with DataFrame functions": "key.deserializer",
        "value is binary: cast it with DataFrame functions": "value.deserializer",
        "key is binary or a string: cast it with DataFrame functions": "key.serializer",
        "value is binary or a string: cast it with DataFrame functions": "value.serializer",
        "nothing joins a consumer group: the checkpoint holds the progress": "enable.auto.commit",
        "use DataFrame functions": "interceptor.classes",
        "it is made from the id of the query": "transactional.id",
        "write the value itself: no class of Java is called": "config.providers",
        "stores are PEM files: see docs/clients/client-security.md": "ssl.keystore.password ssl.truststore.password",
        "Spark would show it in plans: name a file by kafka.ssl.keystore.location": "ssl.keystore.key",
        "name a file with key and chain by kafka.ssl.keystore.location": "ssl.keystore.certificate.chain",
        "name PEM files by kafka.ssl.truststore.location and kafka.ssl.keystore.location": "ssl.engine.factory.class",
        "OpenSSL offers TLS 1.2 and 1.3 with its own suites: narrow them at the broker": """
            ssl.cipher.suites ssl.enabled.protocols""",
        "no class of Java is called: log in by kafka.sasl.mechanism and kafka.sasl.jaas.config": """
            sasl.client.callback.handler.class sasl.login.class sasl.login.callback.handler.class
            sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class""",
        "Kerberos is not offered: log in by PLAIN or SCRAM": """
            sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
            sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor""",
        "not offered: give a client's id and secret, or the file of a token": """
            sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
            sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
            sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
            sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
            sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
            sasl.oauthbearer.assertion.template.file""",
    }
)
"""Settings of Kafka's clients that would contradict what the source and the sink do, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a user wrote, parsed: `options["startingOffsets"]`, by the names of the table."""

    door: Door
    values: Mapping[str, Any]
    """A value for every option of the door."""
    client: Mapping[str, Any] = field(repr=False)
    """Keyword arguments for the client's settings, as `ConsumerSettings` or `ProducerSettings` have them."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def bootstrap_servers(self) -> str:
        return str(self.values[BOOTSTRAP])


NO_SECURITY = cast("AdminOptions", MappingProxyType({}))
"""The options for brokers that require no login, with the client's own patience."""


def reach_of(client: Mapping[str, Any]) -> AdminOptions:
    """Return those options of a client that any other client of the same brokers needs, too: the login, and how long to
    wait. A broker that refuses connections is waited for as long as one that is silent: a query outlasts one that is
    being started again, wherever in a batch that happens."""
    found: Any = {name: value for name, value in client.items() if name in AdminOptions.__optional_keys__}
    most_ms = client.get("default_api_timeout_ms", client.get("max_block_ms", AdminSettings().default_api_timeout_ms))
    options: AdminOptions = found | {"default_api_timeout_ms": most_ms, "bootstrap_timeout_ms": most_ms}
    return options


def parse(options: Mapping[str, str], door: Door) -> Options:
    """Parse the options of one door. Raises OptionError for the first that is unknown, missing or wrong."""
    return _parse(options, (door,), door)


def check_reading(options: Mapping[str, str]) -> Options:
    """Parse the options of reading before it is known whether a batch or a stream will be read: Spark asks for the
    schema first. Raises OptionError for what neither takes."""
    refused = []
    for door in READ:
        try:
            return parse(options, door)
        except OptionError as error:
            refused.append(f"{door}: {error}")
    _parse(options, READ, "readStream")
    raise OptionError("; ".join(refused))


def _parse(options: Mapping[str, str], doors: tuple[Door, ...], door: Door) -> Options:
    if not options or any(key.lower() == "provider" for key in options):
        raise OptionError(f"{BOOTSTRAP} is missing. {_NO_TABLE}" if not options else _NO_TABLE)
    allowed = [option for option in OPTIONS if set(doors) & set(option.doors)]
    values = {option.name: option.default for option in allowed}
    client: dict[str, Any] = {}
    for key, value in options.items():
        option = _BY_KEY.get(key.lower())
        if option is not None and option in allowed:
            values[option.name] = _value(option.name, option.parse, value)
        elif option is None and key.lower().startswith("kafka."):
            client.update(_setting(key.lower().removeprefix("kafka."), value, door))
        else:
            _refuse(key, option, allowed, doors)
    if values[BOOTSTRAP] is None:
        raise OptionError(f"{BOOTSTRAP} is missing: the address of a broker, such as localhost:9092")
    if door in READ:
        chosen = [name for name in CHOICES if values[name] is not None]
        if len(chosen) != 1:
            found = f"found {' and '.join(chosen)}" if chosen else "none is there"
            raise OptionError(f"exactly one of {', '.join(CHOICES)} says what to read; {found}")
    _give_token_provider(client)
    _check_together(values, client, door)
    return Options(door, values, client)


# CREATE TABLE asks for the columns with the options and properties of the table; SELECT and INSERT pass no options.
_NO_TABLE = (
    "Spark keeps none of a table's OPTIONS for a format in Python: write CREATE TEMPORARY VIEW name USING oncelog "
    "OPTIONS (...) to read by SQL, and DataFrame.write to write"
)


def _refuse(key: str, option: Option | None, allowed: Iterable[Option], doors: tuple[Door, ...]) -> NoReturn:
    where = " and ".join(doors)
    if option is not None:
        raise OptionError(f"option {option.name} is for {' and '.join(option.doors)}, not for {where}")
    names = {each.name.lower(): each.name for each in allowed}
    if key.lower() in ("bootstrap.servers", *_known_settings(doors[-1])):
        raise OptionError(f"unknown option {key!r} for {where}: did you mean kafka.{key.lower()}?")
    raise OptionError(f"unknown option {key!r} for {where}{_perhaps(key.lower(), names)}")


def _perhaps(key: str, names: Mapping[str, str]) -> str:
    close = nearest(key, names)
    return f": did you mean {names[close[0]]}?" if close else f"; there are {', '.join(sorted(names.values()))}"


def _value(name: str, parser: Callable[[str], Any], value: str) -> Any:
    try:
        return parser(value)
    except ValueError as error:
        raise OptionError(f"{name}={value!r}: {error}") from None


def _setting(name: str, value: str, door: Door) -> dict[str, Any]:
    """Return a setting of Kafka's clients as our client's keyword argument; nothing if it has no effect."""
    known = _known_settings(door)
    if name == _CALLBACK_HANDLER and value.strip().endswith(".OAuthBearerLoginCallbackHandler"):
        return {}  # Kafka 3 needs it for what the token settings say here
    if name in known:
        field = name.replace(".", "_")
        return {field: _value(f"kafka.{name}", _parser_of(field, door), value)}
    if name in REFUSED:
        raise OptionError(f"kafka.{name} cannot be set: {REFUSED[name]}")
    if name in _PEM and value.upper() != "PEM":
        raise OptionError(f"kafka.{name}={value!r}: a store is a PEM file, {_CONVERTED}")
    if name in WITHOUT_EFFECT or name in _PEM:
        return {}
    other = "a producer" if door in READ else "a consumer"
    if owner_of(name) == other:
        raise OptionError(f"unknown option kafka.{name}: it is a setting of {other}, and {door} has none")
    # Without the prefix, which would make every name long enough for two slips.
    names = {each: f"kafka.{each}" for each in ("bootstrap.servers", *known)}
    raise OptionError(f"unknown option kafka.{name}{_perhaps(name, names)}")


def _known_settings(door: Door) -> tuple[str, ...]:
    return (*(READ_SETTINGS if door in READ else WRITE_SETTINGS), *SECURITY_SETTINGS, *TOKEN_SETTINGS)


def _parser_of(field: str, door: Door) -> Callable[[str], Any]:
    if field in SecurityOptions.__annotations__ or field.startswith("sasl_oauthbearer_"):
        return _SECURITY_PARSERS.get(field, exactly)
    settings = ConsumerSettings if door in READ else ProducerSettings
    default = next(each.default for each in fields(settings) if each.name == field)
    if isinstance(default, bool) or field == "enable_idempotence":
        return boolean
    if isinstance(default, int | float):
        return positive
    return _acks if field == "acks" else text


# Secrets have a parser that takes everything: the error of one that does not shows the value.
_SECURITY_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "security_protocol": lambda value: text(value).upper(),
    "sasl_mechanism": text,
    "sasl_tokenauth": boolean,
    "sasl_oauthbearer_header_urlencode": boolean,
}
_CONVERTED = "which docs/clients/client-security.md makes of a Java store"


def _give_token_provider(client: dict[str, Any]) -> None:
    """Replace Kafka's settings of OAUTHBEARER by the provider of tokens that our client takes. Raises OptionError."""
    given = {name: client.pop(name) for name in [*client] if name.startswith("sasl_oauthbearer_")}
    if client.get("sasl_mechanism") == "OAUTHBEARER":
        from oncelog.pipeline.tokens import token_login

        try:
            client.update(token_login(given, client.pop("sasl_jaas_config", None)))
        except ConfigError as error:
            raise OptionError(f"kafka.*: {error}") from None
    elif given:
        raise OptionError(f"kafka.{next(iter(given)).replace('_', '.')} needs kafka.sasl.mechanism=OAUTHBEARER")


def _acks(value: str) -> str | int:
    if value not in ("all", "-1", "0", "1"):
        raise ValueError("it must be all, -1, 0 or 1")
    return value if value == "all" else int(value)


def _check_together(values: Mapping[str, Any], client: Mapping[str, Any], door: Door) -> None:
    """Check options together with others. Raises OptionError."""
    try:
        if door in READ:
            security_of(ConsumerSettings(bootstrap_servers=values[BOOTSTRAP], **client))
        else:
            security_of(ProducerSettings(**{"transactional_id": "any", **client}))  # as the sink's producers are
    except ConfigError as error:
        raise OptionError(f"kafka.*: {error}") from None
    if door in READ and values.get("endingOffsets") == "earliest":
        raise OptionError("endingOffsets='earliest': a batch ends at latest, or at offsets given as JSON")
    if door == "read" and values["startingOffsets"] == "latest":
        raise OptionError("startingOffsets='latest': a batch starts at earliest, or at offsets given as JSON")
    if values.get("outputName") is not None and values["runId"] is None:
        raise OptionError(
            f"outputName={values['outputName']!r} has no runId beside it: nothing is remembered by that name"
        )
    least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger={least} is more than maxOffsetsPerTrigger={most}")


def table(doors: Iterable[Door]) -> str:
    """Return the options of these doors as a Markdown table, for the documentation."""
    wanted = set(doors)
    lines = ["| option | for | default | meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        if wanted & set(option.doors):
            default = "" if option.default is None else f"`{json.dumps(option.default).strip(chr(34))}`"
            names = "all" if option.doors == EVERY else ", ".join(option.doors)
            lines.append(f"| `{option.name}` | {names} | {default} | {option.about} |")
    return "\n".join(lines)
