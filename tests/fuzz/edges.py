"""Numbers at the edges of their types, stored by each API that stores and read by each API that reads.

Owns: the stories. Each stores one number at an edge of its type: of every field of every request, as its schema has it,
so that a new API joins by itself; of every setting of a topic, a group and a broker that is a number; of every quota;
of every field of a batch. Does not own: requests and answers (`edge_scene`).

A number that is stored may leave its type in a later answer: a lag that is computed of it, a time that is added to it.
The search for bytes (`search`) rarely stores such a number where it is allowed, and as rarely reads it again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.config_key import ConfigKey, ConfigType
from oncelog.broker.config.dynamic_keys import may_change_while_running
from oncelog.broker.config.group_config import GROUP_CONFIGS
from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
from oncelog.protocol.records.batch import assemble_batch
from oncelog.protocol.records.record import Record, encode_records
from oncelog.protocol.schema import ArrayOf, Structure
from oncelog.protocol.types import Primitive
from tests.fuzz.batches import NOW_MS
from tests.fuzz.edge_scene import Path, Scene, Step
from tests.fuzz.requests import request_schema

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint16": 16, "uint32": 32}
_DOUBLES = (float("-inf"), -1e308, -1.0, 0.0, 5e-324, 1e308, float("inf"), float("nan"))
_KIND_OF_KEY = {
    ConfigType.SHORT: "int16",
    ConfigType.INT: "int32",
    ConfigType.LONG: "int64",
    ConfigType.DOUBLE: "float64",
}
_TOPIC_RESOURCE, _BROKER_RESOURCE, _GROUP_RESOURCE = 2, 4, 32
_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_BATCH = {
    "base_offset": "int64",
    "partition_leader_epoch": "int32",
    "attributes": "int16",
    "last_offset_delta": "int32",
    "base_timestamp": "int64",
    "max_timestamp": "int64",
    "producer_id": "int64",
    "producer_epoch": "int16",
    "base_sequence": "int32",
    "record_count": "int32",
}

# What must come before a request, so that it stores what it holds; what must come after, so that it can be read.
BEFORE: Mapping[str, tuple[str, ...]] = {
    "add_offsets_to_txn": ("init_producer_id",),
    "add_partitions_to_txn": ("init_producer_id",),
    "create_partitions": ("create_topics",),
    "delete_topics": ("create_topics",),
    "describe_delegation_token": ("create_delegation_token",),
    "end_txn": ("init_producer_id", "add_partitions_to_txn"),
    "expire_delegation_token": ("create_delegation_token",),
    "heartbeat": ("join_group", "join_group", "sync_group"),
    "join_group": ("join_group",),
    "leave_group": ("join_group", "join_group", "sync_group"),
    "read_share_group_state": ("initialize_share_group_state",),
    "renew_delegation_token": ("create_delegation_token",),
    "share_acknowledge": ("share_group_heartbeat", "share_fetch"),
    "share_fetch": ("share_group_heartbeat",),
    "sync_group": ("join_group", "join_group"),
    "txn_offset_commit": ("init_producer_id", "add_offsets_to_txn"),
    "write_share_group_state": ("initialize_share_group_state",),
    "write_txn_markers": ("init_producer_id", "add_partitions_to_txn"),
}
_AFTER: Mapping[str, tuple[str, ...]] = {
    "add_partitions_to_txn": ("end_txn",),
    "alter_share_group_offsets": ("share_group_heartbeat", "share_fetch"),
    "init_producer_id": ("add_partitions_to_txn", "end_txn"),
    "initialize_share_group_state": ("share_group_heartbeat", "share_fetch"),
    "txn_offset_commit": ("end_txn",),
    "write_share_group_state": ("share_group_heartbeat", "share_fetch"),
}


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    steps: tuple[Step, ...]


def stories() -> dict[str, tuple[Story, ...]]:
    """Collect the stories by what stores the numbers: an API, settings, quotas, batches."""
    found = {api.name: tuple(_of_api(api)) for api in API_TABLE.values()}
    found |= {
        "settings of a topic": tuple(
            _of_settings(_TOPIC_RESOURCE, {name: each.key for name, each in TOPIC_CONFIGS.items()})
        ),
        "settings of a group": tuple(
            _of_settings(_GROUP_RESOURCE, {name: each.key for name, each in GROUP_CONFIGS.items()})
        ),
        "settings of a broker": tuple(
            _of_settings(
                _BROKER_RESOURCE, {name: key for name, key in BROKER_KEYS.items() if may_change_while_running(name)}
            )
        ),
        "quotas": tuple(_of_quotas()),
        "batches": tuple(_of_batches()),
    }
    return {name: each for name, each in found.items() if each}


def _of_api(api: Api) -> Iterator[Story]:
    """Each number of its request at each edge, in the newest version that has that number."""
    before = tuple(map(Step, BEFORE.get(api.name, ())))
    after = tuple(map(Step, _AFTER.get(api.name, ())))
    seen: set[Path] = set()
    for version in range(api.maximum, api.minimum - 1, -1):
        for path, kind in _numbers(request_schema(api).structure, version):
            if path not in seen:
                seen.add(path)
                for value in edges_of(kind):
                    stored = Step(api.name, version=version, path=path, value=value)
                    yield Story(f"{api.name} {version}: {'.'.join(path)}={value}", (*before, stored, *after))


def _numbers(structure: Structure, version: int) -> Iterator[tuple[Path, str]]:
    for each in structure.fields:
        kind = each.type
        while isinstance(kind, ArrayOf):
            kind = kind.element
        if not each.in_version(version):
            continue
        if isinstance(kind, Structure):
            yield from (((each.name, *path), name) for path, name in _numbers(kind, version))
        elif isinstance(kind, Primitive) and edges_of(kind.name):
            yield (each.name,), kind.name


def edges_of(kind: str) -> tuple[int, ...] | tuple[float, ...]:
    """Return the edge values of a type of number; none for another type."""
    if kind in _UNSIGNED:
        return 0, 1, (1 << _UNSIGNED[kind]) - 1
    if kind in _BITS:
        top = 1 << (_BITS[kind] - 1)
        return -top, -1, 0, 1, top - 1
    return _DOUBLES if kind == "float64" else ()


# --- what is used of a topic and of a group once its numbers are stored -----------------------------------------------


def _new_topic(scene: Scene) -> Any:
    return scene.new_topic_id


_ON_NEW_TOPIC = {"topic_id": _new_topic}
_PRODUCE = Step("produce", _ON_NEW_TOPIC)
_USE_TOPIC = (
    _PRODUCE,
    _PRODUCE,
    Step("fetch", _ON_NEW_TOPIC),
    *(
        Step("list_offsets", {"ListOffsetsTopic.name": lambda scene: scene.new_topic, "timestamp": timestamp})
        for timestamp in (-5, -4, -3, -2, -1, 0, NOW_MS, (1 << 63) - 1)
    ),
    Step("describe_producers", {"TopicRequest.name": lambda scene: scene.new_topic}),
    Step("offset_for_leader_epoch", {"topic": lambda scene: scene.new_topic}),
)
_USE_GROUP = tuple(
    map(Step, ("share_group_heartbeat", "share_fetch", "consumer_group_heartbeat", "streams_group_heartbeat"))
)


def _of_settings(resource: int, keys: Mapping[str, ConfigKey]) -> Iterator[Story]:
    """Set each setting to its edges: values out of bounds are refused, the others are at work for a while."""
    for name, key in keys.items():
        for value in edges_of(_KIND_OF_KEY.get(key.type, "")):
            change = {
                "resource_type": resource,
                "resource_name": _NAMED[resource],
                "AlterableConfig.name": name,
                "AlterableConfig.value": str(value),
            }
            back = {**change, "AlterableConfig.config_operation": 1}
            used = _USE_GROUP if resource == _GROUP_RESOURCE else _USE_TOPIC
            ends = (Step("incremental_alter_configs", back),) if resource == _BROKER_RESOURCE else ()
            steps = (Step("create_topics"), Step("incremental_alter_configs", change), *used, *ends)
            yield Story(f"{name}={value}", steps)


_NAMED = {
    _TOPIC_RESOURCE: lambda scene: scene.new_topic,
    _BROKER_RESOURCE: "1",
    _GROUP_RESOURCE: lambda scene: scene.group,
}


def _of_quotas() -> Iterator[Story]:
    for key in _QUOTAS:
        for value in _DOUBLES:
            change = {"OpData.key": key, "OpData.value": value}
            steps = (
                Step("alter_client_quotas", change),
                Step("create_topics"),
                *_USE_TOPIC,
                Step("alter_client_quotas", {**change, "remove": True}),
            )
            yield Story(f"{key}={value}", steps)


def _of_batches() -> Iterator[Story]:
    for name, kind in _BATCH.items():
        for value in edges_of(kind):
            produced = Step("produce", {**_ON_NEW_TOPIC, "records": partial(_batch, **{name: value})})
            yield Story(f"{name}={value}", (Step("create_topics"), produced, *_USE_TOPIC))


def _batch(_: Scene, **changed: Any) -> bytes:
    body = encode_records([Record(0, NOW_MS, None, b"x")], NOW_MS)
    values = {
        "attributes": 0,
        "record_count": 1,
        "last_offset_delta": 0,
        "base_timestamp": NOW_MS,
        "max_timestamp": NOW_MS,
    }
    return assemble_batch(body, **{**values, **changed})
