"""The settings of share groups (KIP-932): bounds, order and Kafka's words, of the broker and of a group."""

import pytest

from oncelog.broker.cluster.metadata_log import ClusterState, ResourceType
from oncelog.broker.config.changes import find_resource
from oncelog.broker.config.group_config import group_config_value, validate_group_config
from oncelog.broker.config.settings import BrokerConfig, ConfigError, load_config
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.fakes.broker import VirtualBroker


def settings(*overrides: str) -> BrokerConfig:
    config, _ = load_config(overrides=overrides)
    return config


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (("group.share.session.timeout.ms=1000",), "group.share.session.timeout.ms must be greater than or equal to"),
        (("group.share.heartbeat.interval.ms=20000",), "group.share.heartbeat.interval.ms must be less than or equal"),
        (
            ("group.share.max.heartbeat.interval.ms=50000", "group.share.heartbeat.interval.ms=50000"),
            "group.share.heartbeat.interval.ms must be less than group.share.session.timeout.ms",
        ),
        (("group.share.max.share.sessions=100",), "group.share.max.share.sessions must be greater than or equal to"),
        (("group.share.record.lock.duration.ms=70000",), "group.share.max.record.lock.duration.ms must be greater"),
        (("group.share.delivery.count.limit=1",), "group.share.delivery.count.limit"),
        (("group.share.max.size=1001",), "group.share.max.size"),
        (("group.share.assignors=range",), "group.share.assignors"),
    ],
)
def test_a_broker_does_not_start_with_what_kafka_refuses(overrides: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings(*overrides)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        (
            "share.session.timeout.ms",
            "44999",
            "share.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms",
        ),
        (
            "share.heartbeat.interval.ms",
            "15001",
            "share.heartbeat.interval.ms must be less than or equal to group.share.max.heartbeat.interval.ms",
        ),
        (
            "share.record.lock.duration.ms",
            "14999",
            "share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms",
        ),
        (
            "share.delivery.count.limit",
            "11",
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (
            "share.partition.max.record.locks",
            "99",
            "Invalid value 99 for configuration share.partition.max.record.locks: Value must be at least 100",
        ),
        (
            "share.isolation.level",
            "committed",
            "Invalid value committed for configuration share.isolation.level: String must be one of: read_committed, "
            "read_uncommitted",
        ),
        (
            "share.auto.offset.reset",
            "none",
            "Invalid value none for configuration share.auto.offset.reset: Invalid value `none` for configuration "
            "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'.",
        ),
        (
            "share.renew.acknowledge.enable",
            "maybe",
            "Invalid value maybe for configuration share.renew.acknowledge.enable: Expected value to be either true "
            "or false",
        ),
        ("share.unknown", "1", "Unknown group config name: share.unknown"),
    ],
)
def test_a_group_takes_no_setting_that_kafka_refuses(name: str, value: str, text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        validate_group_config({name: value}, settings())
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_CONFIG, text)


def test_a_session_is_longer_than_the_time_between_heartbeats() -> None:
    broker = settings("group.share.max.heartbeat.interval.ms=60000")
    with pytest.raises(KafkaError, match="must be greater than share"):
        validate_group_config({"share.heartbeat.interval.ms": "45000"}, broker)


def test_a_value_is_capped_by_bounds_that_were_narrowed_since() -> None:
    config = {"share.delivery.count.limit": "9"}
    assert group_config_value("share.delivery.count.limit", config, settings()) == 9
    narrow = settings("group.share.max.delivery.count.limit=6")
    assert group_config_value("share.delivery.count.limit", config, narrow) == 6
    assert group_config_value("share.delivery.count.limit", {}, narrow) == 5


def test_groups_that_are_described_together_have_each_its_own_settings() -> None:
    """Groups without settings of their own are answered alike, before and after one that has some."""
    broker = VirtualBroker()
    kind, name = ResourceType.GROUP, "share.delivery.count.limit"
    own = AlterConfigsResource(resource_type=kind, resource_name="own", configs=[AlterableConfig(name=name, value="7")])
    (altered,) = broker.ask(IncrementalAlterConfigsRequest(resources=[own]), 1).responses
    assert altered.error_code == ErrorCode.NONE
    asked = [
        DescribeConfigsResource(resource_type=kind, resource_name=group, configuration_keys=keys)
        for group, keys in (("one", None), ("own", None), ("two", [name]), ("", None))
    ]
    answer = broker.ask(DescribeConfigsRequest(resources=asked), 4)
    found = {each.resource_name: {entry.name: entry.value for entry in each.configs} for each in answer.results}
    assert (found["own"][name], found["two"], found[""]) == ("7", {name: "5"}, {})
    assert found["one"] == {**found["own"], name: "5"}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        *(
            (
                f"group.{kind}.assignment.interval.ms",
                "15001",
                f"group.{kind}.assignment.interval.ms must be less than or equal to "
                f"group.{kind}.max.assignment.interval.ms",
            )
            for kind in ("consumer", "share", "streams")
        ),
        (
            "share.coordinator.cached.buffer.max.bytes",
            "524287",
            "Invalid value 524287 for configuration share.coordinator.cached.buffer.max.bytes: Value must be at least "
            "524288",
        ),
    ],
)
def test_a_running_broker_refuses_what_it_would_not_start_with(name: str, value: str, problem: str) -> None:
    """The order of settings holds for changes too, and the bounds of those without effect."""
    broker = find_resource(ResourceType.BROKER, "1", ClusterState(), settings(), 1)
    with pytest.raises(KafkaError) as caught:
        broker.check({name: value}, [name])
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, problem)
    allowed = str(int(value) - 1 if name.startswith("group.") else int(value) + 1)
    broker.check({name: allowed}, [name])
