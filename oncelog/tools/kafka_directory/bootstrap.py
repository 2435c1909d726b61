"""The metadata of a graduated cluster, as the records of Kafka's `bootstrap.checkpoint` (KIP-630, KIP-631).

Owns: which records go along, the feature levels that Kafka adds. Does not own: their framing (`metadata_records`), the
format of the file (`metadata_snapshot`).
Invariant: the first record is the metadata.version, by which Kafka reads the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from oncelog.broker.cluster.features import FEATURES
from oncelog.broker.cluster.metadata_log import CLUSTER_ID_CONFIG, ClusterState, feature_records
from oncelog.broker.cluster.metadata_records import EPOCHS_A_START, NewPartitions
from oncelog.broker.cluster.metadata_snapshot import encode_snapshot
from oncelog.protocol.generated.config_record import ConfigRecord
from oncelog.protocol.generated.feature_level_record import FeatureLevelRecord
from oncelog.protocol.generated.register_broker_record import RegisterBrokerRecord

BOOTSTRAP = "bootstrap.checkpoint"
_KAFKAS_LEVELS = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The features that Kafka 4.3's `kafka-storage.sh format` finalizes, in its order."""
_OWN_PREFIX = "oncelog."


def feature_levels(finalized: Mapping[str, int]) -> dict[str, int]:
    """Return Kafka's levels, except that features which this broker has keep theirs, which is the lowest if a data
    directory from before a feature has none."""
    lowest = {name: feature.minimum for name, feature in FEATURES.items()}
    return _KAFKAS_LEVELS | lowest | {name: level for name, level in finalized.items() if name in _KAFKAS_LEVELS}


def is_kafkas(name: str) -> bool:
    """Whether Apache Kafka knows a setting of this name that was accepted here."""
    return not name.startswith(_OWN_PREFIX)


def own_settings(state: ClusterState) -> list[str]:
    """Return the names of stored settings that stay behind."""
    configs = [topic.config for topic in state.topics.values()] + list(state.configs.values())
    return sorted({name for config in configs for name in config if not is_kafkas(name)})


def encode_checkpoint(state: ClusterState, directory_id: UUID) -> bytes:
    """Return the whole file. `directory_id` is that of Kafka's log directory, where all replicas are (KIP-858)."""
    # Without a log below it, a snapshot has no time; so the same state gives the same bytes.
    return encode_snapshot(bootstrap_records(state, directory_id), last_timestamp_ms=0, epoch=0)


def bootstrap_records(state: ClusterState, directory_id: UUID) -> Iterator[Any]:
    yield from feature_records(feature_levels(state.features))
    for record in state.records():
        match record:
            case FeatureLevelRecord() | RegisterBrokerRecord():
                continue  # the levels are above; a broker registers itself
            case ConfigRecord() if record.name == CLUSTER_ID_CONFIG or not is_kafkas(record.name):
                continue  # Kafka's cluster id is in meta.properties
            case NewPartitions():
                # Kafka's first start is a new leadership, as each start here is: older epochs of clients are fenced.
                leader = record.leader._replace(epoch=record.leader.epoch + EPOCHS_A_START)
                yield replace(record, leader=leader, directory_id=directory_id)
            case _:
                yield record
