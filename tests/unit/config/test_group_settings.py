"""The settings of groups of one type, as values."""

from oncelog.broker.cluster.features import SHARE_VERSION
from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.config.group_settings import GroupSettings, share_group_config
from tests.fakes.broker import VirtualBroker


def test_the_settings_of_a_group_are_one_value_until_they_change() -> None:
    parts = VirtualBroker().broker
    settings = GroupSettings(parts.live_config, parts.metadata, share_group_config, SHARE_VERSION)
    of_all = settings.of("a")
    assert settings.of("b") is of_all
    parts.live_config.change(ResourceType.GROUP, "a", {"share.session.timeout.ms": "50000"})
    assert settings.of("a").session_timeout_ms == 50_000
    assert settings.of("a") is settings.of("a")
    assert settings.of("b") == of_all
    parts.live_config.change(ResourceType.BROKER, "", {"group.share.assignment.interval.ms": "2000"})
    assert [settings.of(group_id).assignment_interval_ms for group_id in "ab"] == [2_000, 2_000]
