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
        "Tells writes of one `runId` apart that go to one topic, or to the topics that their rows name. Default: the "
        "topic, or `rows` without the option `topic`.",
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
_PEM = ("ssl.truststore.type", "ssl.keystore.type")
WITHOUT_EFFECT = {
    "group.id": "nothing joins a consumer group: the checkpoint holds the progress",
    "session.timeout.ms": "nothing joins a consumer group",
    "heartbeat.interval.ms": "nothing joins a consumer group",
    "max.poll.records": "records are read by the batch",
    "max.poll.interval.ms": "nothing joins a consumer group",
    "fetch.min.bytes": "only what is stable already is fetched",
    "fetch.max.wait.ms": "only what is stable already is fetched",
    "metadata.max.age.ms": "topics and partitions are looked up for each batch",
}
"""Settings of Kafka's clients that are accepted, and why they have nothing to act on."""
REFUSED = {
    "auto.offset.reset": "use startingOffsets and failOnDataLoss",
    "key.deserializer": "key is binary: cast it with DataFrame functions",
    "value.deserializer": "value is binary: cast it with DataFrame functions",
    "key.serializer": "key is binary or a string: cast it with DataFrame functions",
    "value.serializer": "value is binary or a string: cast it with DataFrame functions",
    "enable.auto.commit": "nothing joins a consumer group: the checkpoint holds the progress",
    "interceptor.classes": "use DataFrame functions",
    "transactional.id": "it is made from the id of the query",
    "ssl.keystore.password": "stores are PEM files: see docs/clients/client-security.md",
    "ssl.truststore.password": "stores are PEM files: see docs/clients/client-security.md",
    "ssl.keystore.key": "Spark would show it in plans: name a file by kafka.ssl.keystore.location",
    "ssl.keystore.certificate.chain": "name a file with key and chain by kafka.ssl.keystore.location",
}
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
    schema first."""
    return _parse(options, READ, "readStream")


def _parse(options: Mapping[str, str], doors: tuple[Door, ...], door: Door) -> Options:
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
    _check_together(values, client, door)
    return Options(door, values, client)


def _refuse(key: str, option: Option | None, allowed: Iterable[Option], doors: tuple[Door, ...]) -> NoReturn:
    where = " and ".join(doors)
    if option is not None:
        raise OptionError(f"option {option.name} is for {' and '.join(option.doors)}, not for {where}")
    names = {each.name.lower(): each.name for each in allowed}
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
    known = (*(READ_SETTINGS if door in READ else WRITE_SETTINGS), *SECURITY_SETTINGS)
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
    names = {f"kafka.{each}": f"kafka.{each}" for each in known}
    raise OptionError(f"unknown option kafka.{name}{_perhaps(f'kafka.{name}', names)}")


def _parser_of(field: str, door: Door) -> Callable[[str], Any]:
    if field in SecurityOptions.__annotations__:
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
}
_CONVERTED = "which docs/clients/client-security.md makes of a Java store"


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
