"""The options of `format("oncelog")`: names as Spark's Kafka source has them, and a sentence for whatever is wrong."""

import pickle
from typing import Any

import pytest

from oncelog.client import SecurityOptions
from oncelog.pipeline.options import (
    EVERY,
    OPTIONS,
    READ,
    READ_SETTINGS,
    REFUSED,
    SECURITY_SETTINGS,
    TOKEN_SETTINGS,
    WITHOUT_EFFECT,
    WRITE_SETTINGS,
    Door,
    OptionError,
    check_reading,
    parse,
    reach_of,
)
from oncelog.pipeline.tokens import TokenEndpoint
from tests.conformance.kafka_settings import client_settings

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
READING = {**SERVERS, "subscribe": "purchases"}
SCRAM = {
    "kafka.security.protocol": "sasl_plaintext",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": " hunter2 ",
}


def test_a_reader_needs_only_brokers_and_a_topic() -> None:
    options = parse(READING, "readStream")
    assert (options.bootstrap_servers, options["subscribe"]) == ("localhost:9092", ("purchases",))
    assert (options["failOnDataLoss"], options["maxTriggerDelay"], options.client) == (True, 900_000, {})


@pytest.mark.parametrize("door", EVERY)
def test_each_door_gets_a_value_for_each_of_its_options_and_no_other(door: Door) -> None:
    options = parse(READING if door in READ else SERVERS, door)
    assert set(options.values) == {option.name for option in OPTIONS if door in option.doors}


def test_names_are_taken_in_any_case_as_spark_does() -> None:
    assert parse({**READING, "STARTINGOFFSETS": "earliest"}, "read")["startingOffsets"] == "earliest"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("subscribe", "a, b,a,", ("a", "b")),
        ("subscribePattern", r"\Qa.b\E-.*", r"a\.b-.*"),
        ("subscribePattern", r"\[[^a]&&[b\[]", r"\[[^a]&&[b\[]"),
        ("assign", '{"a": [2, 0, 2]}', {"a": (0, 2)}),
        ("startingOffsets", '{"a": {"0": 23, "1": -2}}', {"a": {0: 23, 1: -2}}),
        ("startingOffsetsByTimestamp", '{"a": {"0": 1577836800000}}', {"a": {0: 1_577_836_800_000}}),
        ("startingTimestamp", "1577836800000", 1_577_836_800_000),
        ("maxTriggerDelay", "2m", 120_000),
        ("maxTriggerDelay", "500", 500),
        ("failOnDataLoss", "FALSE", False),
        ("maxOffsetsPerTrigger", "1000", 1000),
    ],
)
def test_values_are_those_of_sparks_kafka_source(name: str, text: str, value: Any) -> None:
    chosen = SERVERS if name in ("subscribe", "subscribePattern", "assign") else READING
    assert parse({**chosen, name: text}, "readStream")[name] == value


def test_settings_of_the_client_are_passed_on_under_their_own_types() -> None:
    kafka = {
        "kafka.isolation.level": "read_uncommitted",
        "kafka.max.partition.fetch.bytes": "4194304",
        "kafka.check.crcs": "false",
        "kafka.group.id": "accepted, without effect",
        "kafka.security.protocol": "PLAINTEXT",
    }
    expected = {
        "isolation_level": "read_uncommitted",
        "max_partition_fetch_bytes": 4_194_304,
        "check_crcs": False,
        "security_protocol": "PLAINTEXT",
    }
    assert parse(READING | kafka, "read").client == expected


@pytest.mark.parametrize(
    ("options", "door", "sentence"),
    [
        ({"subscribe": "a"}, "readStream", "kafka.bootstrap.servers is missing"),
        (SERVERS, "readStream", "exactly one of subscribe, subscribePattern, assign says what to read; none is there"),
        ({**READING, "assign": '{"a": [0]}'}, "read", "found subscribe and assign"),
        (
            {**SERVERS, "subscrbe": "a"},
            "readStream",
            "unknown option 'subscrbe' for readStream: did you mean subscribe?",
        ),
        ({**READING, "bootstrap": "a:1"}, "readStream", "unknown option 'bootstrap'"),
        (
            {**READING, "provider": "oncelog", "option.subscribe": "purchases"},
            "readStream",
            "Spark keeps none of a table's OPTIONS for a format in Python: write CREATE TEMPORARY VIEW",
        ),
        ({}, "write", "Spark keeps none of a table's OPTIONS for a format in Python: write CREATE TEMPORARY VIEW"),
        ({**READING, "topic": "a"}, "readStream", "option topic is for write and writeStream, not for readStream"),
        ({**READING, "endingOffsets": "latest"}, "readStream", "option endingOffsets is for read, not for readStream"),
        (
            {**READING, "startingOffsets": "first"},
            "read",
            "startingOffsets='first': earliest, latest, or JSON is needed",
        ),
        ({**READING, "startingOffsets": '{"a": {"0": -3}}'}, "read", "earliest, latest, or JSON is needed"),
        ({**READING, "startingOffsets": "latest"}, "read", "a batch starts at earliest"),
        ({**READING, "endingOffsets": "earliest"}, "read", "a batch ends at latest"),
        ({**SERVERS, "subscribePattern": "(a"}, "read", "not a regular expression"),
        ({**SERVERS, "assign": '{"a": 0}'}, "read", 'such as {"topic": [0, 1]}'),
        ({**READING, "failOnDataLoss": "no"}, "read", "failOnDataLoss='no': true or false is needed"),
        ({**READING, "minPartitions": "0"}, "read", "minPartitions='0': a whole number above 0 is needed"),
        ({**READING, "maxTriggerDelay": "soon"}, "readStream", "such as 15m, 30s or 500ms"),
        ({**READING, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "readStream", "is more than"),
        ({**READING, "kafka.isolation.level": "committed"}, "read", "isolation_level='committed': must be one of"),
        ({**READING, "kafka.isolation.levl": "x"}, "read", "did you mean kafka.isolation.level?"),
        (
            {**READING, "kafka.linger.ms": "5"},
            "read",
            "kafka.linger.ms: it is a setting of a producer, and read has none",
        ),
        ({**READING, "kafka.auto.offset.reset": "latest"}, "read", "use startingOffsets and failOnDataLoss"),
        (
            {**READING, "kafka.security.protocol": "SASL_SSL"},
            "read",
            "security_protocol='SASL_SSL' needs sasl_mechanism",
        ),
        ({**READING, "kafka.security.protocol": "TLS"}, "read", "must be one of 'PLAINTEXT', 'SSL'"),
        ({**READING, **SCRAM, "kafka.security.protocol": "PLAINTEXT"}, "read", "has no meaning with security_protocol"),
        ({**READING, **SCRAM, "kafka.sasl.tokenauth": "yes"}, "read", "true or false is needed"),
        ({**READING, "kafka.ssl.truststore.type": "JKS"}, "read", "a store is a PEM file"),
        ({**READING, "kafka.ssl.truststore.password": "x"}, "read", "stores are PEM files"),
        ({**READING, "kafka.ssl.keystore.key": "x"}, "read", "Spark would show it in plans"),
        (
            {**READING, "kafka.sasl.login.class": "x"},
            "read",
            "kafka.sasl.login.class cannot be set: no class",
        ),
        (
            {"kafka.bootstrap.servers": "a:1", "topic": "t", "kafka.acks": "some"},
            "write",
            "kafka.acks='some': it must be all, -1, 0 or 1",
        ),
    ],
)
def test_what_is_wrong_is_named_in_a_sentence(options: dict[str, str], door: Door, sentence: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(options, door)
    assert sentence in str(raised.value)


@pytest.mark.parametrize("expression", [r"\p{Lu}.*", r"[a-z&&[^b]]+", r"[a[b-c]]", r"\h", r"(?<a>b)"])
def test_what_only_javas_regular_expressions_have_is_refused(expression: str) -> None:
    with pytest.raises(OptionError, match="subscribePattern="):
        parse({**SERVERS, "subscribePattern": expression}, "read")


@pytest.mark.parametrize(
    ("door", "hints"),
    [
        (
            "read",
            {
                "subscribe_pattern": "subscribePattern",
                "asign": "assign",
                "startingOffset": "startingOffsets",
                "startingTimestamps": "startingTimestamp",
                "failOnDataLoos": "failOnDataLoss",
                "minPartition": "minPartitions",
                "includeHeader": "includeHeaders",
                "bootstrap.servers": "kafka.bootstrap.servers",
                "Isolation.Level": "kafka.isolation.level",
                "kafka.boostrap.servers": "kafka.bootstrap.servers",
                "kafka.bootstrap.server": "kafka.bootstrap.servers",
                "kafka.sasl.mechanisms": "kafka.sasl.mechanism",
                "kafka.client": "kafka.client.id",
            },
        ),
        (
            "write",
            {
                "topics": "topic",
                "run_id": "runId",
                "compression.type": "kafka.compression.type",
                "kafka.ack": "kafka.acks",
                "kafka.batchsize": "kafka.batch.size",
                "kafka.linger": "kafka.linger.ms",
            },
        ),
    ],
)
def test_a_typo_is_answered_with_what_was_meant(door: Door, hints: dict[str, str]) -> None:
    for typo, meant in hints.items():
        with pytest.raises(OptionError) as raised:
            parse({**(READING if door in READ else SERVERS), typo: "x"}, door)
        assert str(raised.value).endswith(f": did you mean {meant}?"), typo


@pytest.mark.parametrize("door", EVERY)
def test_a_word_that_is_like_no_option_is_answered_with_all_and_no_hint(door: Door) -> None:
    words = """path header mode format paths queue group id ids url dbtable schema delimiter inferSchema user password
        compression multiLine sep partitions maxRate offsets timestamps catalog database table location key value
        kafka.acl kafka.user kafka.ca kafka.ssl.ca.location kafka.client.name kafka.zookeeper.connect kafka.topic
        kafka.partition kafka.schema.registry.url kafka.key kafka.offset"""
    for word in words.split():
        with pytest.raises(OptionError) as raised:
            parse({**(READING if door in READ else SERVERS), word: "x"}, door)
        assert "did you mean" not in str(raised.value)
        assert "there are " in str(raised.value)


@pytest.mark.parametrize("door", EVERY)
def test_options_of_tls_and_sasl_reach_every_client_and_are_shown_by_nothing(door: Door) -> None:
    options = parse({**(READING if door in READ else SERVERS), **SCRAM}, door)
    reach = reach_of(options.client)
    assert {name: value for name, value in reach.items() if name in SecurityOptions.__annotations__} == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": " hunter2 ",
    }
    assert "hunter2" not in repr(options)


@pytest.mark.parametrize(
    "more",
    [
        {"kafka.sasl.jaas.config": "hunter2"},
        {"kafka.sasl.tokenauth": "true", "kafka.sasl.mechanism": "PLAIN"},
        {"kafka.ssl.key.password": "hunter2"},
        {"kafka.ssl.keystore.key": "hunter2"},
        {"kafka.ssl.keystore.password": "hunter2"},
        {"kafka.sasl.pasword": "hunter2"},
    ],
    ids=str,
)
def test_no_error_shows_a_secret(more: dict[str, str]) -> None:
    with pytest.raises(OptionError) as raised:
        parse({**READING, **SCRAM, **more}, "read")
    assert "hunter2" not in str(raised.value)


BY_VALUE = {"ssl.truststore.type", "ssl.keystore.type"}
"""Accepted as PEM, refused as anything else."""


@pytest.mark.parametrize(
    ("client", "settings", "door"), [("consumer", READ_SETTINGS, "read"), ("producer", WRITE_SETTINGS, "write")]
)
def test_every_setting_of_kafkas_clients_has_an_effect_or_none_or_is_refused(
    client: str, settings: tuple[str, ...], door: Door
) -> None:
    kinds = [
        {"bootstrap.servers", *settings, *SECURITY_SETTINGS, *TOKEN_SETTINGS},
        {*WITHOUT_EFFECT},
        {*REFUSED},
        BY_VALUE,
    ]
    kafkas = client_settings(client)
    assert {name: sum(name in kind for kind in kinds) for name in kafkas} == dict.fromkeys(kafkas, 1)
    for name in kafkas & {*WITHOUT_EFFECT}:
        assert parse({**(READING if door in READ else SERVERS), f"kafka.{name}": "any"}, door).client == {}
    for name in kafkas & {*REFUSED}:
        with pytest.raises(OptionError, match=f"kafka.{name} cannot be set: "):
            parse({**(READING if door in READ else SERVERS), f"kafka.{name}": "any"}, door)


def test_what_is_accepted_or_refused_are_settings_that_kafkas_clients_have() -> None:
    assert {*WITHOUT_EFFECT, *REFUSED} <= client_settings("consumer") | client_settings("producer")


OAUTH = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
    "OAuthBearerLoginCallbackHandler",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
}
JAAS = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="job" {};'
CREDENTIALS = "kafka.sasl.oauthbearer.client.credentials.client"


@pytest.mark.parametrize(
    "more",
    [
        {"kafka.sasl.jaas.config": JAAS.format('clientSecret="hunter2" scope="kafka"')},
        {f"{CREDENTIALS}.id": "job", f"{CREDENTIALS}.secret": "hunter2", "kafka.sasl.oauthbearer.scope": "kafka"},
    ],
    ids=["jaas", "settings"],
)
@pytest.mark.parametrize("door", EVERY)
def test_a_clients_credentials_for_a_token_reach_every_client_and_are_shown_by_nothing(
    door: Door, more: dict[str, str]
) -> None:
    options = parse({**(READING if door in READ else SERVERS), **OAUTH, **more}, door)
    provider = pickle.loads(pickle.dumps(reach_of(options.client)["sasl_oauth_token_provider"]))
    assert provider == TokenEndpoint("https://issuer.example/token", "job", "hunter2", "kafka")
    assert "hunter2" not in repr(options) + repr(provider)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"kafka.sasl.oauthbearer.token.endpoint.url": ""}, "needs sasl.oauthbearer.token.endpoint.url"),
        ({"kafka.sasl.oauthbearer.token.endpoint.url": "https://a:hunter2@b/"}, "the https: of an endpoint"),
        ({}, "client.id and .client.secret, or clientId and clientSecret in sasl.jaas.config"),
        ({"kafka.sasl.jaas.config": "hunter2"}, "needs one entry of OAuthBearerLoginModule"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "url needs kafka.sasl.mechanism=OAUTHBEARER"),
        ({"kafka.sasl.login.callback.handler.class": "MyHandler"}, "no class of Java is called"),
    ],
)
def test_what_is_missing_for_a_token_is_said_without_a_secret(more: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse({**READING, **OAUTH, **more}, "read")
    assert sentence in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("more", [{"endingOffsets": "latest"}, {"maxOffsetsPerTrigger": "5"}], ids=str)
def test_before_the_door_is_known_the_options_of_both_reading_doors_are_allowed(more: dict[str, str]) -> None:
    assert check_reading({**READING, **more, "includeHeaders": "true"})["includeHeaders"]
    with pytest.raises(OptionError, match="unknown option 'includeHeader' for read and readStream"):
        check_reading({**READING, **more, "includeHeader": "true"})


@pytest.mark.parametrize(
    "more",
    [
        {"endingOffsets": "latest", "maxOffsetsPerTrigger": "5"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": "latest", "endingTimestamp": "5"},
        {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
        {"topic": "a"},
    ],
    ids=str,
)
def test_what_neither_reading_door_takes_is_refused_before_the_door_is_known(more: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"not for|ends at latest|is more than|starts at earliest"):
        check_reading({**READING, **more})
