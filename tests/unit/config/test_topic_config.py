"""Topic settings: the same answers as Apache Kafka 4.3 gave to the same settings."""

import pytest

from oncelog.broker.config.descriptions import describe_topic
from oncelog.broker.config.settings import BrokerConfig, load_config
from oncelog.broker.config.topic_config import (
    ConfigSource,
    internal_topic_config,
    log_config_for,
    resolve_topic_config,
    validate_topic_config,
)
from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
from oncelog.protocol.errors import ErrorCode, KafkaError


def _broker(*overrides: str) -> BrokerConfig:
    return load_config(overrides=overrides)[0]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"cleanup.policy": ""},
        {"cleanup.policy": "delete,compact"},
        {"retention.ms": " 5 "},
        {"retention.ms": "-1"},
        {"segment.bytes": "1048576"},
        {"internal.segment.bytes": "1024"},
        {"compression.gzip.level": "-1"},
        {"compression.zstd.level": "-7"},
        {"min.cleanable.dirty.ratio": "0.25"},
    ],
)
def test_what_kafka_takes_is_taken(config: dict[str, str]) -> None:
    validate_topic_config(config)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        (
            {"cleanup.policy": "foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"retention.ms": "abc"}, "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (10)",
        ),
        (
            {"segment.bytes": "1024"},
            "Invalid value 1024 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            {"compression.type": "zip"},
            "Invalid value zip for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            {"preallocate": "maybe"},
            "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
        ),
        (
            {"min.cleanable.dirty.ratio": "1.5"},
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            {"compression.gzip.level": "0"},
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            {"max.message.bytes": "3000000000"},
            "Invalid value 3000000000 for configuration max.message.bytes: Not a number of type INT",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(config: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_config(config)
    assert caught.value.code == ErrorCode.INVALID_CONFIG
    assert caught.value.message == message


def test_every_default_is_valid_and_resolves_from_the_brokers_defaults() -> None:
    broker = _broker()
    validate_topic_config({name: item.key.default or "" for name, item in TOPIC_CONFIGS.items()})
    for name, item in TOPIC_CONFIGS.items():
        resolved = resolve_topic_config(name, {}, broker)
        assert (resolved.value, resolved.source) == (item.key.default, ConfigSource.DEFAULT_CONFIG)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], "604800000"),
        (["log.retention.hours=2"], "7200000"),
        (["log.retention.hours=2", "log.retention.minutes=3"], "180000"),
        (["log.retention.hours=2", "log.retention.minutes=3", "log.retention.ms=4"], "4"),
        (["log.retention.hours=-1"], "-1"),
    ],
)
def test_retention_follows_milliseconds_before_minutes_before_hours(overrides: list[str], expected: str) -> None:
    assert resolve_topic_config("retention.ms", {}, _broker(*overrides)).value == expected


def test_a_topics_own_setting_comes_first_and_the_others_stay_visible() -> None:
    resolved = resolve_topic_config("segment.ms", {"segment.ms": "5"}, _broker("log.roll.ms=7", "log.roll.hours=1"))
    assert resolved.value == "5"
    assert resolved.synonyms == (
        ("segment.ms", "5", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.roll.ms", "7", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.roll.hours", "1", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.roll.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )


def test_a_value_from_another_unit_counts_and_is_not_listed_as_in_kafka() -> None:
    resolved = resolve_topic_config("segment.ms", {}, _broker("log.roll.hours=1"))
    assert (resolved.value, resolved.source, resolved.synonyms) == ("3600000", ConfigSource.DEFAULT_CONFIG, ())


def test_the_logs_settings_are_the_topics_over_the_brokers() -> None:
    config = log_config_for(
        {"max.message.bytes": "100", "cleanup.policy": "compact", "internal.segment.bytes": "2048"},
        _broker("log.retention.hours=1", "producer.id.expiration.ms=7", "oncelog.record.validation=full"),
    )
    assert (config.max_message_bytes, config.is_compacted, config.segment_bytes) == (100, True, 2048)
    assert (config.retention_ms, config.producer_id_expiration_ms, config.checks_every_record) == (3_600_000, 7, True)


def test_the_internal_topics_are_compacted_and_sized_by_their_own_settings() -> None:
    broker = _broker("offsets.topic.num.partitions=4", "transaction.state.log.segment.bytes=4096")
    count, config = internal_topic_config("__consumer_offsets", broker)
    assert (count, config["cleanup.policy"], config["segment.bytes"]) == (4, "compact", "104857600")
    count, config = internal_topic_config("__transaction_state", broker)
    assert (count, config["compression.type"]) == (50, "uncompressed")
    validate_topic_config(config)
    assert log_config_for(config, broker).segment_bytes == 4096


def test_the_state_of_share_groups_is_bounded_by_its_coordinator_and_by_nothing_else() -> None:
    broker = _broker("share.coordinator.state.topic.num.partitions=3", "log.retention.bytes=1", "log.retention.hours=1")
    count, config = internal_topic_config("__share_group_state", broker)
    assert count == 3
    validate_topic_config(config)
    log_config = log_config_for(config, broker)
    assert (log_config.is_compacted, log_config.is_deleting) == (False, True)
    assert (log_config.retention_ms, log_config.retention_bytes) == (-1, -1)


def test_an_internal_setting_is_described_once_it_is_given() -> None:
    """As in Kafka's KafkaConfigSchema, so that CreateTopics and DescribeConfigs show what was set."""
    given = {"internal.segment.bytes": "1000"}
    for config in ({}, given):
        described = {each.name: each.value for each in describe_topic(config, _broker())}
        assert {name: value for name, value in described.items() if name.startswith("internal.")} == config
