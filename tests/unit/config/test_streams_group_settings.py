"""The settings of streams groups (KIP-1071): bounds, order and Kafka's words, of the broker and of a group."""

import pytest

from oncelog.broker.config.group_config import group_config_value, validate_group_config
from oncelog.broker.config.settings import BrokerConfig, ConfigError, load_config
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.clients.group_members import started
from tests.clients.streams_group_members import Streams, described


def settings(*overrides: str) -> BrokerConfig:
    config, _ = load_config(overrides=overrides)
    return config


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ("group.streams.session.timeout.ms=1000",),
            "session.timeout.ms must be greater than or equal to group.streams",
        ),
        (("group.streams.heartbeat.interval.ms=20000",), "heartbeat.interval.ms must be less than or equal to group"),
        (
            ("group.streams.max.heartbeat.interval.ms=50000", "group.streams.heartbeat.interval.ms=50000"),
            "group.streams.heartbeat.interval.ms must be less than group.streams.session.timeout.ms",
        ),
        (("group.streams.assignment.interval.ms=15001",), "assignment.interval.ms must be less than or equal to group"),
        (("group.streams.num.standby.replicas=3",), "replicas must be less than or equal to group.streams.max.standby"),
        (("group.streams.num.standby.replicas=-1",), "group.streams.num.standby.replicas"),
        (("group.streams.max.size=0",), "group.streams.max.size"),
    ],
)
def test_a_broker_does_not_start_with_what_kafka_refuses(overrides: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings(*overrides)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "streams.num.standby.replicas",
            "3",
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            "streams.initial.rebalance.delay.ms",
            "-1",
            "Invalid value -1 for configuration streams.initial.rebalance.delay.ms: Value must be at least 0",
        ),
    ],
)
def test_a_group_takes_no_setting_that_kafka_refuses(name: str, value: str, text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        validate_group_config({name: value}, settings())
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_CONFIG, text)


def test_a_value_is_capped_by_a_bound_that_was_narrowed_since() -> None:
    config = {"streams.num.standby.replicas": "2"}
    assert group_config_value("streams.num.standby.replicas", config, settings()) == 2
    narrow = settings("group.streams.max.standby.replicas=1")
    assert group_config_value("streams.num.standby.replicas", config, narrow) == 1


def test_without_the_feature_every_request_is_unsupported() -> None:
    broker = started()
    lower = FeatureUpdateKey("streams.version", 0, upgrade_type=2)
    answer = broker.ask(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[lower]), 1)
    assert not any(result.error_code for result in answer.results)
    assert Streams(broker).join() is ErrorCode.UNSUPPORTED_VERSION
    assert described(broker).error_code == ErrorCode.UNSUPPORTED_VERSION
    raised = FeatureUpdateKey("streams.version", 1)
    broker.ask(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[raised]), 1)
    assert Streams(broker).join() is ErrorCode.NONE
