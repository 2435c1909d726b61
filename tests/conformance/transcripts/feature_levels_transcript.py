"""What the level of each feature switches, and what `group.coordinator.rebalance.protocols` does beside it.

Owns: the questions: the types of groups while their feature, or their protocol, is off, with a group that was there
before; `min.insync.replicas` with and without eligible leader replicas (KIP-966); internal settings, which are shown
once they are given. A level is asked for until it is seen, because Kafka's broker learns of it a moment after its
controller.
"""

from typing import Any

from tests.clients.asking import Broker, Told, parts_of
from tests.conformance.transcripts.admin_configs_transcript import BROKER, DELETE, SET, TOPIC, ConfigTalk
from tests.conformance.transcripts.admin_topics_transcript import topic

_SOFTWARE = {"client_software_name": "test", "client_software_version": "1"}
_ELR = "eligible.leader.replicas.version"
_MIN_ISR = "min.insync.replicas"
_OF_ONE_BROKER, _OF_ALL_BROKERS, _DEFAULT = 2, 3, 5
"""Sources of a value in DescribeConfigs."""
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_FINALIZED = "finalized_features{name min_version_level max_version_level}"
_LEVELS = ("ApiVersions", 4, _FINALIZED)
_HEARTBEAT = "error_code error_message member_id member_epoch heartbeat_interval_ms"
_DESCRIBED = "groups{error_code error_message group_id group_state members:len}"

AT_START = (
    f"{_PROTOCOLS}=classic,share",
    "unstable.api.versions.enable=true",
    "server.max.startup.time.ms=100000",
)
"""Settings that a broker is started with for `at_start`."""


class LevelTalk(ConfigTalk):
    def level(self, feature: str, level: int) -> Any:
        """Finalize a level, in either direction, and wait until ApiVersions has it."""
        update = {"feature": feature, "max_version_level": level, "upgrade_type": 1 if level else 2}
        fields = {"timeout_ms": 10_000, "feature_updates": [update]}
        answer = self.ask("UpdateFeatures", 2, "error_code error_message", **fields)
        row = [(feature, level, level)] if level else []
        self.until(lambda found: [each for each in found if each[0] == feature] == row, *_LEVELS, **_SOFTWARE)
        return answer

    def until_set_by(self, sources: list[int]) -> None:
        asked = {"resources": [(BROKER, "1", [_MIN_ISR])], "include_synonyms": True}
        self.until(lambda found: found == sources, "DescribeConfigs", 4, "results.0.configs.0.synonyms.source", **asked)

    def set_on(self, name: str) -> Any:
        entry = "name value read_only config_source config_type synonyms(name value source)"
        asked = {"resources": [(BROKER, name, [_MIN_ISR])], "include_synonyms": True}
        return self.ask("DescribeConfigs", 4, f"results.0.configs({entry})", **asked)


def conversation(broker: Broker) -> Told:
    """The levels; `broker` must be fresh, and have every feature at its highest level."""
    talk = LevelTalk(broker)
    talk.created(topic("levels"))
    talk.await_coordinators()
    yield from parts_of(talk, shown, types_of_groups, eligible_leader_replicas)


def at_start(broker: Broker) -> Told:
    """What a broker that was started with `AT_START` serves and shows."""
    talk = LevelTalk(broker)
    talk.await_coordinators()
    yield from (("asked: " + name, answer) for name, answer in _asked(talk))
    names = [each.partition("=")[0] for each in AT_START]
    for synonyms in (True, False):
        yield f"shown, synonyms {synonyms}", talk.described(BROKER, "1", names, synonyms=synonyms)
    for name in ("", "1"):
        yield f"the protocols are set on {name!r}", talk.tried(BROKER, name, (_PROTOCOLS, SET, "classic,consumer"))


# --- the parts --------------------------------------------------------------------------------------------------------


def shown(talk: LevelTalk) -> Told:
    for version in (3, 4):
        shape = f"supported_features{{name min_version max_version}} {_FINALIZED}"
        yield f"features, version {version}", talk.ask("ApiVersions", version, shape, **_SOFTWARE)


def types_of_groups(talk: LevelTalk) -> Told:
    joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["levels"], "topic_partitions": []}
    member = {"group_id": "there", "member_id": "m"}
    answer = talk.ask("ConsumerGroupHeartbeat", 1, "error_code member_epoch", **member, member_epoch=0, **joins)
    yield "a consumer group begins", answer
    for feature in ("group.version", "share.version", "streams.version"):
        yield f"{feature} off", talk.level(feature, 0)
        for name, answer in _asked(talk):
            yield f"{name}, {feature} off", answer
        yield f"{feature} on", talk.level(feature, 1)
    beat = {**member, "member_epoch": _epoch(talk)}
    yield "the member is still there", talk.ask("ConsumerGroupHeartbeat", 1, _HEARTBEAT, **beat)
    yield "it leaves", talk.ask("ConsumerGroupHeartbeat", 1, _HEARTBEAT, **member, member_epoch=-1)
    yield "and the group is deleted", talk.ask("DeleteGroups", 2, "results(error_code)", groups_names=["there"])


def _epoch(talk: LevelTalk) -> int:
    shape = "groups.0.members.0.member_epoch"
    epoch: int = talk.ask("ConsumerGroupDescribe", 1, shape, group_ids=["there"])
    return epoch


def _asked(talk: LevelTalk) -> Told:
    """What each type of group answers to a request of nothing, of a stranger and of the member that is there."""
    for version in (0, 1):
        yield f"consumer, empty, version {version}", talk.ask("ConsumerGroupHeartbeat", version, _HEARTBEAT)
        stranger = {"group_id": "there", "member_id": "x", "member_epoch": 5}
        yield (
            f"consumer, stranger, version {version}",
            talk.ask("ConsumerGroupHeartbeat", version, _HEARTBEAT, **stranger),
        )
        asked = {"group_ids": ["there", "nowhere", ""]}
        yield f"consumer, described, version {version}", talk.ask("ConsumerGroupDescribe", version, _DESCRIBED, **asked)
    yield "streams, empty", talk.ask("StreamsGroupHeartbeat", 0, _HEARTBEAT)
    stranger = {"group_id": "streams", "member_id": "x", "member_epoch": 5}
    yield "streams, stranger", talk.ask("StreamsGroupHeartbeat", 0, _HEARTBEAT, **stranger)
    yield "streams, described", talk.ask("StreamsGroupDescribe", 0, _DESCRIBED, group_ids=["streams", ""])
    yield "share, empty", talk.ask("ShareGroupHeartbeat", 1, _HEARTBEAT)
    stranger = {"group_id": "share", "member_id": "x", "member_epoch": 5}
    yield "share, stranger", talk.ask("ShareGroupHeartbeat", 1, _HEARTBEAT, **stranger)
    yield "share, described", talk.ask("ShareGroupDescribe", 1, _DESCRIBED, group_ids=["share", ""])
    listed = "groups{group_id protocol_type group_state group_type}"
    yield "listed", talk.ask("ListGroups", 5, listed, types_filter=["consumer"])
    described = "groups(error_code error_message group_id group_state)"
    yield "as a classic group", talk.ask("DescribeGroups", 6, described, groups=["there"])
    offsets = {"groups": [("there", None, -1, None)]}
    yield "its offsets", talk.ask("OffsetFetch", 9, "groups(error_code topics)", **offsets)


def eligible_leader_replicas(talk: LevelTalk) -> Told:
    yield "with it", (talk.set_on(""), talk.set_on("1"))
    yield from (("with it, " + name, answer) for name, answer in _changes(talk))
    yield "off", talk.level(_ELR, 0)
    yield "without it", (talk.set_on(""), talk.set_on("1"))
    yield from (("without it, " + name, answer) for name, answer in _changes(talk))
    yield "deleted on all", talk.changed(BROKER, "", (_MIN_ISR, DELETE, None))
    yield "set on one", talk.changed(BROKER, "1", (_MIN_ISR, SET, "1"))
    talk.until_set_by([_OF_ONE_BROKER, _DEFAULT])
    yield "deleted and set", (talk.set_on(""), talk.set_on("1"))
    yield "on again", talk.level(_ELR, 1)
    talk.until_set_by([_OF_ALL_BROKERS, _DEFAULT])
    yield "with it again", (talk.set_on(""), talk.set_on("1"))


def _changes(talk: LevelTalk) -> Told:
    for name in ("", "1"):
        yield f"set on {name!r}", talk.tried(BROKER, name, (_MIN_ISR, SET, "1"))
        yield f"deleted on {name!r}", talk.tried(BROKER, name, (_MIN_ISR, DELETE, None))
        yield f"replaced on {name!r}", talk.replaced(BROKER, name, (_MIN_ISR, "1"), validate_only=True)
    yield "set on a topic", talk.tried(TOPIC, "levels", (_MIN_ISR, SET, "1"))


_ONE_LEVEL = "records are those of one metadata.version, and there is no quorum of voters that kraft.version is of"
_ON = [(name, 1, 1) for name in (_ELR, "group.version")]
_ON += [("metadata.version", 30, 30), ("share.version", 1, 1), ("streams.version", 1, 1), ("transaction.version", 2, 2)]

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    "shown: features, version 3": (_ONE_LEVEL, ([("metadata.version", 30, 30)], _ON)),
    "shown: features, version 4": (
        _ONE_LEVEL,
        ([(name, 30 if name == "metadata.version" else 0, highest) for name, _, highest in _ON], _ON),
    ),
}
