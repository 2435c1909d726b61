"""The effective settings of a topic, combined with the broker's.

Owns: validation for CreateTopics, the value and source of each setting for DescribeConfigs, the settings of the two
internal topics. Does not own: the table (`broker.config.topic_keys`), what the log does (`broker.log.log_config`).
Invariants
- A topic never has a setting that `validate_topic_config` would reject.
- A setting that the topic lacks follows the broker's, by Kafka's synonyms in Kafka's order.
KIPs: 13, 226 (synonyms), 1030 (bounds of 4.0).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from oncelog.broker.config.config_key import INT64_MAX, BadList, ConfigKey, NotAChoice
from oncelog.broker.config.settings import BrokerConfig, Origin
from oncelog.broker.config.topic_keys import (
    INTERNAL_SEGMENT_BYTES,
    INTERNAL_TOPIC_CONFIGS,
    TOPIC_CONFIGS,
    Synonym,
    TopicConfigKey,
)
from oncelog.broker.log.log_config import LogConfig, log_config_of
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE


class ConfigSource(IntEnum):
    """The source of a value, as DescribeConfigs reports it (KIP-226)."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


def source_of(origin: Origin) -> ConfigSource:
    """Return DescribeConfigs' name for the origin of a broker's value."""
    match origin:
        case Origin.THIS_BROKER:
            return ConfigSource.DYNAMIC_BROKER_CONFIG
        case Origin.ALL_BROKERS:
            return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        case Origin.DEFAULT:
            return ConfigSource.DEFAULT_CONFIG
        case _:
            return ConfigSource.STATIC_BROKER_CONFIG


@dataclass(frozen=True, slots=True)
class TopicConfigValue:
    """One setting of one topic. `synonyms` are (name, value, source) of all applicable values, by precedence, each in
    the unit of its own name."""

    key: ConfigKey
    value: str
    source: ConfigSource
    synonyms: tuple[tuple[str, str, ConfigSource], ...]


_THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+\Z")


def invalid_value(name: str, value: str, error: ValueError) -> str:
    """Return Kafka's message for an invalid value; for a list, the message names the item."""
    if isinstance(error, BadList):
        return str(error)
    if isinstance(error, NotAChoice):
        value = error.item
    elif name in _THROTTLED:
        value = f"[{', '.join(item.strip() for item in value.split(','))}]"
    return f"Invalid value {value} for configuration {name}: {error}"


def _check_throttled(name: str, value: str) -> None:
    items = [item.strip() for item in value.split(",")] if value else []
    if items != ["*"] and not all(_THROTTLED_REPLICA.match(item) for item in items):
        raise ValueError(
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )


def validate_topic_config(config: Mapping[str, str]) -> None:
    """Raises KafkaError(INVALID_CONFIG) with Kafka's message."""
    for name, value in config.items():
        topic_key = TOPIC_CONFIGS.get(name) or INTERNAL_TOPIC_CONFIGS.get(name)
        if topic_key is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
        try:
            topic_key.key.check(value)
            if name in _THROTTLED:
                _check_throttled(name, value)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, invalid_value(name, value, error)) from None
    shortest, longest = config.get("min.compaction.lag.ms"), config.get("max.compaction.lag.ms")
    if shortest is not None and int(shortest) > int(longest or INT64_MAX):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})",
        )
    if config.get("remote.storage.enable", "").strip().lower() == "true":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


def resolve_topic_config(name: str, config: Mapping[str, str], broker_config: BrokerConfig) -> TopicConfigValue:
    """Return the value of one setting for a topic with `config`, and its source. Raises KeyError for other names."""
    topic_key = TOPIC_CONFIGS.get(name) or INTERNAL_TOPIC_CONFIGS[name]
    synonyms = broker_synonyms([synonym.name for synonym in topic_key.synonyms], broker_config)
    value = _value(topic_key, config, broker_config)
    if name in config:
        synonyms.insert(0, (name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
    source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
    return TopicConfigValue(topic_key.key, value, source, tuple(synonyms))


def _value(topic_key: TopicConfigKey, config: Mapping[str, str], broker_config: BrokerConfig) -> str:
    own = config.get(topic_key.name)
    return topic_key.key.check(own) if own is not None else _inherited(topic_key, broker_config)


def _inherited(topic_key: TopicConfigKey, broker_config: BrokerConfig) -> str:
    """Return the broker's value in the topic's unit: the first that is set."""
    for synonym in topic_key.synonyms:
        if broker_config.origin(synonym.name) is not Origin.DEFAULT:
            return _in_topic_unit(broker_config.get_str(synonym.name), synonym, topic_key.name)
    return topic_key.key.default or ""


def broker_synonyms(names: Sequence[str], broker_config: BrokerConfig) -> list[tuple[str, str, ConfigSource]]:
    """(name, value, source) of all values set under names with the same meaning, by precedence.

    As in Kafka the list begins with the first name: values before it are left out, and if that name is not set at all
    the list is empty.
    """
    given = [(name, value, origin) for name in names for value, origin in broker_config.layers(name)]
    given.sort(key=lambda entry: _source_rank(entry[2]))
    for index, (name, _, _) in enumerate(given):
        if name == names[0]:
            return [(name, value, source_of(origin)) for name, value, origin in given[index:]]
    return []


def _source_rank(origin: Origin) -> int:
    return source_of(origin).value


def log_config_for(config: Mapping[str, str], broker_config: BrokerConfig) -> LogConfig:
    """Return the settings of a partition's log."""
    # Called for each partition that is opened: without the synonyms, which only a description shows.
    values = {name: _value(topic_key, config, broker_config) for name, topic_key in TOPIC_CONFIGS.items()}
    if INTERNAL_SEGMENT_BYTES in config:
        values["segment.bytes"] = config[INTERNAL_SEGMENT_BYTES]
    for name in ("producer.id.expiration.ms", "oncelog.record.validation"):
        values[name] = broker_config.get_str(name)
    return log_config_of(values)


def internal_topic_config(name: str, broker_config: BrokerConfig) -> tuple[int, Mapping[str, str]]:
    """Return partition count and settings of a new internal topic. Raises KeyError for other names."""
    prefix = {
        CONSUMER_OFFSETS: "offsets.topic",
        TRANSACTION_STATE: "transaction.state.log",
        SHARE_GROUP_STATE: "share.coordinator.state.topic",
    }[name]
    config = {"cleanup.policy": "compact", "compression.type": "producer"}
    segment_bytes = broker_config.get_int(f"{prefix}.segment.bytes")
    # Kafka accepts any size from one byte here, whatever the bound for topics.
    config["segment.bytes" if segment_bytes >= 1048576 else INTERNAL_SEGMENT_BYTES] = str(segment_bytes)
    if name == TRANSACTION_STATE:
        config.update({"compression.type": "uncompressed", "unclean.leader.election.enable": "false"})
    if name == SHARE_GROUP_STATE:
        # Not compacted: an update does not say everything. Its coordinator deletes what is redundant, and no bound of
        # the broker's other logs may (Kafka leaves retention.bytes to log.retention.bytes).
        config.update({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"})
        config["min.insync.replicas"] = "1"
    return broker_config.get_int(f"{prefix}.num.partitions"), config


def _in_topic_unit(text: str, synonym: Synonym, name: str) -> str:
    if name == "retention.ms" and int(text) < 0:
        return "-1"
    return text if synonym.factor == 1 else str(int(text) * synonym.factor)
