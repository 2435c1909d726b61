"""Settings that change while the broker runs: in force at once, kept over a restart, never half."""

import pytest

from oncelog.broker.cluster import features
from oncelog.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS_VERSION, FEATURES
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from tests.clients.administration import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    change,
    create,
    delete,
    described,
    produce,
    set_feature,
    start_change,
    start_produce,
)
from tests.fakes.broker import VirtualBroker

TOPIC = "topic"


def segment_count(broker: VirtualBroker) -> int:
    return len([name for name in broker.disk.list_dir(f"{TOPIC}-0") if name.endswith(".log")])


def test_a_smaller_largest_message_holds_from_the_next_record_on() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    large = b"x" * 500
    assert produce(broker, TOPIC, large) is ErrorCode.NONE
    assert change(broker, TOPIC_RESOURCE, TOPIC, max_message_bytes="300") is ErrorCode.NONE
    assert produce(broker, TOPIC, large) is ErrorCode.MESSAGE_TOO_LARGE
    assert produce(broker.killed(), TOPIC, large) is ErrorCode.MESSAGE_TOO_LARGE
    assert change(broker, TOPIC_RESOURCE, TOPIC, max_message_bytes=None) is ErrorCode.NONE
    assert produce(broker, TOPIC, large) is ErrorCode.NONE


def test_segments_are_as_large_as_the_topic_says_now() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    value = b"x" * 400_000
    for _ in range(4):
        produce(broker, TOPIC, value)
    assert segment_count(broker) == 1
    change(broker, TOPIC_RESOURCE, TOPIC, segment_bytes="1048576")
    for _ in range(4):
        produce(broker, TOPIC, value)
    assert segment_count(broker) > 1


def test_records_go_by_the_retention_that_was_set_last() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC, segment_ms="1")
    for _ in range(3):
        produce(broker, TOPIC)
        broker.let_pass(10)
    broker.broker.logs.apply_retention(broker.time.wall_ms())
    broker.time.settle()
    log = broker.broker.topics.partition(TOPIC, 0)
    assert log.log_start_offset == 0
    change(broker, TOPIC_RESOURCE, TOPIC, retention_ms="5")
    broker.broker.logs.apply_retention(broker.time.wall_ms())
    broker.time.settle()
    assert log.log_start_offset > 0


def test_the_brokers_clock_stamps_records_once_the_topic_asks_for_it() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    stamps = []
    for kind in ("LogAppendTime", None):
        for _ in range(2):
            reply = start_produce(broker, TOPIC)
            broker.time.settle()
            stamps.append(reply.message.responses[0].partition_responses[0].log_append_time_ms >= 0)
            change(broker, TOPIC_RESOURCE, TOPIC, message_timestamp_type=kind)
    assert stamps == [False, True, True, False]


def test_a_topic_follows_all_brokers_until_this_broker_or_the_topic_says_otherwise() -> None:
    broker = VirtualBroker("message.max.bytes=5000")
    create(broker, TOPIC)
    produce(broker, TOPIC)
    log = broker.broker.topics.partition(TOPIC, 0)
    seen = [log.config.max_message_bytes]
    for kind, name, values in (
        (BROKER_RESOURCE, "", {"message_max_bytes": "4000"}),
        (BROKER_RESOURCE, "1", {"message_max_bytes": "3000"}),
        (TOPIC_RESOURCE, TOPIC, {"max_message_bytes": "2000"}),
        (TOPIC_RESOURCE, TOPIC, {"max_message_bytes": None}),
        (BROKER_RESOURCE, "1", {"message_max_bytes": None}),
        (BROKER_RESOURCE, "", {"message_max_bytes": None}),
    ):
        assert change(broker, kind, name, **values) is ErrorCode.NONE
        seen.append(log.config.max_message_bytes)
        again = broker.killed().broker.topics.partition(TOPIC, 0)
        assert again.config == log.config
    assert seen == [5000, 4000, 3000, 2000, 3000, 4000, 5000]


def test_what_was_set_while_running_wins_over_the_next_start() -> None:
    broker = VirtualBroker()
    change(broker, BROKER_RESOURCE, "1", log_retention_ms="7")
    assert described(broker.killed("log.retention.ms=9"), BROKER_RESOURCE, "1")["log.retention.ms"] == "7"


def test_a_change_is_answered_once_it_is_durable() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    reply = start_change(broker, TOPIC_RESOURCE, TOPIC, retention_ms="5")
    assert not reply.is_there
    broker.time.settle()
    assert reply.is_there


def test_the_changes_of_one_request_are_all_kept_or_none_whatever_a_power_cut_leaves() -> None:
    outcomes = set()
    for seed in range(40):
        broker = VirtualBroker()
        create(broker, TOPIC)
        start_change(broker, TOPIC_RESOURCE, TOPIC, retention_ms="5", segment_ms="6", flush_ms="7")
        left = described(broker.crashed(seed), TOPIC_RESOURCE, TOPIC)
        outcomes.add((left["retention.ms"], left["segment.ms"], left["flush.ms"]))
    assert outcomes <= {("5", "6", "7"), ("604800000", "604800000", "9223372036854775807")}


def test_one_wrong_change_leaves_the_others_undone() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    assert change(broker, TOPIC_RESOURCE, TOPIC, retention_ms="5", segment_ms="soon") is ErrorCode.INVALID_CONFIG
    assert described(broker, TOPIC_RESOURCE, TOPIC)["retention.ms"] == "604800000"


def test_a_deleted_topic_leaves_no_settings_to_the_next_of_its_name() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC, retention_ms="5")
    delete(broker, TOPIC)
    create(broker, TOPIC)
    assert described(broker.killed(), TOPIC_RESOURCE, TOPIC)["retention.ms"] == "604800000"


def test_settings_of_a_group_survive_a_restart() -> None:
    broker = VirtualBroker()
    assert change(broker, GROUP_RESOURCE, "group", consumer_session_timeout_ms="50000") is ErrorCode.NONE
    again = broker.killed()
    assert described(again, GROUP_RESOURCE, "group")["consumer.session.timeout.ms"] == "50000"
    assert described(again, GROUP_RESOURCE, "other")["consumer.session.timeout.ms"] == "45000"


def test_the_cluster_id_is_no_setting_that_can_be_changed() -> None:
    broker = VirtualBroker()
    cluster_id = broker.broker.cluster_id
    for value in ("other", None):
        change(broker, BROKER_RESOURCE, "", cluster_id=value)
    assert broker.killed().broker.cluster_id == cluster_id
    assert change(broker, BROKER_RESOURCE, "", cluster_id="other") is ErrorCode.INVALID_REQUEST


def test_an_internal_setting_is_shown_once_it_is_given() -> None:
    """As in Kafka: at its default nobody sees it, and a value that the broker was started with is seen."""
    for name, value in (("unstable.api.versions.enable", "true"), ("server.max.startup.time.ms", "100000")):
        assert name not in described(VirtualBroker(), BROKER_RESOURCE, "1")
        assert described(VirtualBroker(f"{name}={value}"), BROKER_RESOURCE, "1")[name] == value


# --- features ---------------------------------------------------------------------------------------------------------


def finalized(broker: VirtualBroker) -> dict[str, int]:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = broker.ask(request, 4)
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


@pytest.mark.parametrize("level", [1, 2])
def test_a_new_data_directory_begins_with_the_level_that_was_asked_for(level: int) -> None:
    broker = VirtualBroker(f"oncelog.feature.transaction.version={level}")
    assert finalized(broker)["transaction.version"] == level


def test_a_later_start_leaves_the_level_as_it_is() -> None:
    broker = VirtualBroker("oncelog.feature.transaction.version=1")
    assert finalized(broker.killed("oncelog.feature.transaction.version=2"))["transaction.version"] == 1


def test_a_level_that_was_changed_outlives_every_power_cut_and_moves_the_epoch() -> None:
    for seed in range(10):
        broker = VirtualBroker()
        before = broker.broker.metadata.state.features_epoch
        assert set_feature(broker, "transaction.version", 1, upgrade_type=2) is ErrorCode.NONE
        survivor = broker.crashed(seed)
        assert finalized(survivor)["transaction.version"] == 1
        assert survivor.broker.metadata.state.features_epoch > before


def test_a_feature_that_a_metadata_log_from_before_it_lacks_is_off_until_it_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = ELIGIBLE_LEADER_REPLICAS_VERSION
    with monkeypatch.context() as before:
        before.setattr(features, "FEATURES", {each: found for each, found in FEATURES.items() if each != name})
        broker = VirtualBroker()
    broker = broker.killed()
    assert name not in finalized(broker)
    assert change(broker, BROKER_RESOURCE, "1", min_insync_replicas="1") is ErrorCode.NONE
    assert set_feature(broker, name, 1, upgrade_type=1) is ErrorCode.NONE
    assert finalized(broker)[name] == 1
    assert change(broker, BROKER_RESOURCE, "1", min_insync_replicas="1") is ErrorCode.INVALID_CONFIG


def test_min_insync_replicas_is_one_value_for_all_brokers_exactly_at_level_one() -> None:
    """What the level of eligible.leader.replicas.version settles is in the metadata log, and outlives a kill."""
    name = ELIGIBLE_LEADER_REPLICAS_VERSION
    broker = VirtualBroker("min.insync.replicas=1")
    own = {"min_insync_replicas": "1"}
    for level, upgrade_type, answer in ((0, 2, ErrorCode.NONE), (1, 1, ErrorCode.INVALID_CONFIG)):
        assert set_feature(broker, name, level, upgrade_type=upgrade_type) is ErrorCode.NONE
        of_all = described(broker, BROKER_RESOURCE, "")
        assert of_all["min.insync.replicas"] == "1"
        broker = broker.killed("min.insync.replicas=2")
        assert described(broker, BROKER_RESOURCE, "") == of_all
        assert "min.insync.replicas" not in broker.broker.metadata.state.config(BROKER_RESOURCE, "1")
        assert change(broker, BROKER_RESOURCE, "1", **own) is answer
        assert change(broker, BROKER_RESOURCE, "", min_insync_replicas=None) is answer
        assert change(broker, BROKER_RESOURCE, "", **own) is ErrorCode.NONE


def test_limits_of_replication_are_checked_and_shown_once_they_are_set() -> None:
    broker, name = VirtualBroker(), "leader.replication.throttled.rate"
    assert name not in described(broker, BROKER_RESOURCE, "1")
    assert change(broker, BROKER_RESOURCE, "1", leader_replication_throttled_rate="-1") is ErrorCode.INVALID_REQUEST
    assert change(broker, BROKER_RESOURCE, "1", leader_replication_throttled_rate="5") is ErrorCode.NONE
    assert described(broker, BROKER_RESOURCE, "1")[name] == "5"


def test_a_level_of_zero_is_not_finalized() -> None:
    broker = VirtualBroker()
    assert set_feature(broker, "transaction.version", 0, upgrade_type=3) is ErrorCode.NONE
    assert "transaction.version" not in finalized(broker)


def test_settings_of_security_are_kept_without_effect_unseen_and_never_without_a_warning() -> None:
    broker = VirtualBroker()
    # Kafka reads "+1" as 1, so it is this broker.
    assert change(broker, BROKER_RESOURCE, "+1", sasl_jaas_config="password") is ErrorCode.NONE
    for _ in range(2):
        warned = [line for line in broker.warnings if line["event"] == "config.no_security"]
        assert [line["settings"] for line in warned] == [["sasl.jaas.config"]], "once for the change or the start"
        resource = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1")
        (result,) = broker.ask(DescribeConfigsRequest(resources=[resource]), 4).results
        (entry,) = [each for each in result.configs if each.name == "sasl.jaas.config"]
        assert (entry.value, entry.is_sensitive) == (None, True)
        broker = broker.killed()
