"""The features of this broker: which levels it supports, and how the finalized ones may change (KIP-584, KIP-1022).

Owns: the table and the verdict on an update. Does not own: the finalized levels (`broker.cluster.metadata_log`), what a
level does. Invariant: a finalized level is always one that is supported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.config.settings import BrokerConfig

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    minimum: int
    maximum: int
    setting: str | None = None
    """The setting of the level that a new data directory begins with; without one, the highest."""


_TABLE = (
    # One level alone: the records and requests of Kafka 4.3 are what is written and read here.
    Feature("metadata.version", 30, 30),
    Feature("transaction.version", 0, 2, "oncelog.feature.transaction.version"),
    Feature("group.version", 0, 1),
)

FEATURES = {feature.name: feature for feature in _TABLE}


def first_levels(config: "BrokerConfig") -> Mapping[str, int]:
    """What is finalized when a data directory is made."""
    return {
        feature.name: feature.maximum if feature.setting is None else config.get_int(feature.setting)
        for feature in FEATURES.values()
    }


def check_update(node_id: int, levels: Mapping[str, int], name: str, level: int, upgrade_type: int) -> None:
    """Raises KafkaError(INVALID_UPDATE_VERSION), in Kafka's words, when this may not become the level of a feature."""
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
