"""The features of this broker: which levels it supports, and how the finalized ones may change (KIP-584, KIP-1022).

Owns: the table and the check of an update. Does not own: the finalized levels (`broker.cluster.metadata_log`), the
effect of a level. Invariant: a finalized level is always one that is supported here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oncelog.protocol.errors import ErrorCode, KafkaError

ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
SHARE_VERSION = "share.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    minimum: int
    maximum: int
    setting: str | None = None
    """The setting that gives the level of a new data directory; without one, the highest."""


_TABLE = (
    # A single level: records and requests are those of Kafka 4.3.
    Feature("metadata.version", 30, 30),
    Feature("transaction.version", 0, 2, "oncelog.feature.transaction.version"),
    # One replica has no others: what the level switches here is the one value of min.insync.replicas (KIP-966).
    Feature(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1),
    Feature("group.version", 0, 1),
    Feature(SHARE_VERSION, 0, 1),
    Feature("streams.version", 0, 1),
)

FEATURES = {feature.name: feature for feature in _TABLE}


def is_on(levels: Mapping[str, int], name: str) -> bool:
    """Whether a feature that is either off (0) or on (1) is finalized as on."""
    return levels.get(name, 0) >= 1


def first_levels(setting: Callable[[str], int]) -> Mapping[str, int]:
    """The finalized levels of a new data directory; `setting` gives the value of one."""
    return {
        feature.name: feature.maximum if feature.setting is None else setting(feature.setting)
        for feature in FEATURES.values()
    }


def check_update(node_id: int, levels: Mapping[str, int], name: str, level: int, upgrade_type: int) -> None:
    """Raises KafkaError(INVALID_UPDATE_VERSION), in Kafka's words, if the feature may not change to this level."""
    feature, now = FEATURES.get(name), levels.get(name, 0)
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        problem = "The controller does not support the given upgrade type."
    elif level < 0:
        problem = "A feature version cannot be less than 0."
    elif feature is None:
        problem = f"Local controller {node_id} does not support this feature."
    elif not feature.minimum <= level <= feature.maximum:
        problem = f"Local controller {node_id} only supports versions {feature.minimum}-{feature.maximum}"
    elif level < now and upgrade_type == UPGRADE:
        problem = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    elif level > now and upgrade_type != UPGRADE:
        problem = "Can't downgrade to a newer version."
    else:
        return
    raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {problem}")
