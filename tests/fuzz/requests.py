"""Requests that a client could send: every API in every version that is served, sensible more often than not.

Owns: the names that fuzzing clients use, what they have learnt from answers, and the stories that they follow (a
transaction from its begin to its end, a member of a group). Does not own: the lies (`frames`, `batches`).
"""

from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from random import Random
from typing import Any
from uuid import UUID

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.apis.table import API_TABLE
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure, attribute
from oncelog.protocol.types import Primitive, Variable
from tests.fuzz.batches import NOW_MS, bad_batch, good_batch
from tests.support.requests.hostile import HOSTILE
from tests.support.requests.messages import generated

_STORIES = (
    ("api_versions", "metadata", "create_topics", "metadata", "produce", "fetch", "list_offsets"),
    ("create_topics", "init_producer_id", "add_partitions_to_txn", "produce", "add_offsets_to_txn")
    + ("txn_offset_commit", "end_txn", "fetch", "describe_transactions", "list_transactions"),
    ("init_producer_id", "produce", "produce", "end_txn", "produce", "init_producer_id", "write_txn_markers"),
    ("find_coordinator", "join_group", "join_group", "sync_group", "heartbeat", "offset_commit", "offset_fetch")
    + ("describe_groups", "join_group", "sync_group", "leave_group", "delete_groups"),
    ("create_topics", "produce", "create_partitions", "delete_records", "describe_configs", "fetch", "delete_topics"),
)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_CONFIGS = {
    "cleanup.policy": ("delete", "compact", "compact,delete", "what"),
    "max.message.bytes": ("1000", "1000000", "-1", "x"),
    "compression.type": ("gzip", "snappy", "lz4", "zstd", "uncompressed", "producer", "brotli"),
    "retention.ms": ("-1", "1", "9223372036854775807", "-2"),
    "segment.bytes": ("1048576", "1", "2147483648"),
    "message.timestamp.type": ("LogAppendTime", "CreateTime", ""),
    "min.insync.replicas": ("1", "2"),
    "no.such.key": ("", "\x00"),
}
# The sensible values of fields, by name; a story's own names come first.
_NUMBERS: dict[str, tuple[int, ...]] = {
    "acks": (-1, -1, -1, 0, 1, 2),
    "timeout_ms": (1_000, 30_000, 0),
    "max_wait_ms": (0, 0, 1, 500),
    "min_bytes": (0, 1, 100_000),
    "max_bytes": (1 << 20, 1 << 20, 1, 0, -1, -(1 << 31)),
    "partition_max_bytes": (1 << 20, 1 << 20, 1, 0, -1, -(1 << 31)),
    "session_timeout_ms": (6_000, 10_000, 45_000),
    "rebalance_timeout_ms": (1_000, 60_000),
    "transaction_timeout_ms": (1_000, 60_000, 900_000, 0),
    "num_partitions": (1, 2, 4, -1),
    "count": (1, 2, 4, 8),
    "replication_factor": (1, 1, -1),
    "replica_id": (-1, -1, -2, 1),
    "session_id": (0, 0, 0, 1),
    "session_epoch": (-1, -1, 0, 1),
    "current_leader_epoch": (-1, 0, 1),
    "committed_leader_epoch": (-1, 0),
    "leader_epoch": (-1, 0),
    "timestamp": (-1, -2, -3, -4, -5, NOW_MS, 0),
    "isolation_level": (0, 1),
    "key_type": (0, 1, 2),
    "resource_type": (2, 4, 8, 16, 32),
    "broker_ids": (1, 1, 0),
    "generation_id": (-1, 0, 1, 2),
    "generation_id_or_member_epoch": (-1, 0, 1, 2),
    "member_epoch": (-1, 0, 1, 2),
    "partition": (0, 0, 1),
    "partitions": (0, 0, 1),
    "partition_index": (0, 0, 1),
    "partition_indexes": (0, 0, 1),
    "index": (0, 0, 1),
    "fetch_offset": (0, 0, 1, 5, 100),
    "offset": (0, 1, 3, -1),
    "committed_offset": (0, 1, 7),
    "upgrade_type": (1, 2, 3),
    "max_version_level": (0, 1, 2, 29),
    "response_partition_limit": (2000, 1),
}
_EXTREME_TEXTS = ("", "\x00", "ü" * 100, "x" * 249, "x" * 250, "x" * 32_767, "..", "../../x", "a\n\x1b[2J", "(a+)+$")


@dataclass(slots=True)
class World:
    """The names, ids and epochs that the fuzzing clients of one run know."""

    source: Random
    spares_internal_topics: bool = False
    """Whether to leave internal topics alone. Deleting them is allowed, and loses what the good client has committed:
    at an unknown moment where clients run side by side.
    """
    story: int = 0
    topic_ids: list[UUID] = field(default_factory=lambda: [UUID(int=0), UUID(int=1)])
    member_ids: list[str] = field(default_factory=lambda: [""])
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)

    def name(self, what: str) -> str:
        """One of this story's names, or at times one of another story's, or one that steers terminals."""
        if self.source.random() < 0.01:
            return f"fuzz-{what}-{self.source.choice(tuple(HOSTILE.values()))}"
        return f"fuzz-{what}-{self.source.choice((self.story, self.story, self.story, self.source.randrange(12)))}"

    def learn(self, response: Any) -> None:
        """Ids that the broker has given out, so that later requests reach deeper."""
        topic = getattr(response, "name", None) or getattr(response, "topic_name", None) or ""
        if not topic.startswith("fuzz-") and hasattr(response, "topic_id"):
            return  # not ours: neither internal topics nor those of the good client beside us are touched by their id
        for name in response.FIELDS:
            value = getattr(response, name)
            if name == "topic_id" and value.int:
                self.topic_ids.append(value)
            elif name == "member_id" and value:
                self.member_ids.append(value)
            elif name == "producer_id" and value >= 0 and hasattr(response, "producer_epoch"):
                self.producers[f"fuzz-transaction-{self.story}"] = (value, response.producer_epoch)
            elif isinstance(value, list | tuple):
                for item in value[:10]:
                    if hasattr(item, "FIELDS"):
                        self.learn(item)
        del self.topic_ids[2:-8], self.member_ids[1:-6]


@cache
def request_schema(api: Api) -> Schema:
    schema: Schema = getattr(import_module(f"oncelog.protocol.messages.{api.name}"), f"{api.name}_request".upper())
    return schema


class Requests:
    """Messages and versions, one after the other, in stories that are often interrupted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._apis = tuple(API_TABLE.values())
        self._by_name = {api.name: api for api in self._apis}
        self._story: list[str] = []

    def next(self) -> tuple[Api, int, Any]:
        source = self.world.source
        if not self._story:
            self.world.story = source.randrange(12)
            self._story = list(source.choice(_STORIES))
        if source.random() < 0.35:
            api = source.choice(self._apis)
        else:
            api = self._by_name[self._story.pop(0)]
        version = source.choice((api.maximum, api.minimum, source.randint(api.minimum, api.maximum)))
        return api, version, self.message(api, version)

    def message(self, api: Api, version: int) -> Any:
        schema = request_schema(api)
        return _Maker(self.world, schema, version).structure(schema.structure)


class _Maker:
    """One message; how wild it is, is drawn once, so that most messages are sensible in every field."""

    def __init__(self, world: World, schema: Schema, version: int) -> None:
        self._world = world
        self._source = world.source
        self._version = version
        self._module = generated(schema)
        self._wildness = self._source.choice((0.0, 0.0, 0.0, 0.03, 0.3))
        self._transactional = False
        self._elements_left = 1_000

    def structure(self, structure: Structure) -> Any:
        values = {}
        for each in structure.fields:
            if each.in_version(self._version) and self._source.random() < 0.97:
                values[attribute(each.name)] = self._field(each, structure)
        return getattr(self._module, structure.name)(**values)

    def _field(self, each: Field, owner: Structure) -> Any:
        if each.is_nullable(self._version) and self._source.random() < (0.5 if each.default is None else 0.05):
            return None
        if isinstance(each.type, ArrayOf):
            wild = self._source.random() < self._wildness
            count = self._source.choice((0, 2, 3, 300)) if wild else self._source.choice((1, 1, 1, 2, 0))
            count = min(count, self._elements_left)
            self._elements_left -= count
            return [self._value(each, each.type.element, owner) for _ in range(count)]
        value = self._value(each, each.type, owner)
        if each.name in ("transactional_id", "v3_and_below_transactional_id"):
            self._transactional = True
        return value

    def _value(self, each: Field, kind: Any, owner: Structure) -> Any:
        wild = self._source.random() < self._wildness
        match kind:
            case Structure():
                return self.structure(kind)
            case Variable(name="string"):
                return self._source.choice(_EXTREME_TEXTS) if wild else self._text(each.name, owner.name)
            case Variable(name="records"):
                return bad_batch(self._source) if wild or self._source.random() < 0.15 else self._batch()
            case Variable():
                return self._source.randbytes(self._source.choice((0, 1, 1_000, 100_000)) if wild else 8)
            case Primitive(name="bool"):
                return self._source.random() < 0.5
            case Primitive(name="uuid"):
                return self._source.choice(self._world.topic_ids)
            case Primitive(name="float64"):
                return self._source.choice((0.0, -1.0, float("inf"), float("nan")))
            case Primitive(name=name):
                return self._wild_number(name) if wild else self._number(each.name, name)
        raise TypeError(f"{kind!r} is not a field type")

    def _wild_number(self, kind: str) -> int:
        top = 1 << (_BITS.get(kind, 16) - 1)
        if kind not in _BITS:
            return self._source.choice((0, 1, top))
        return self._source.choice((-top, -2, -1, 0, 1, top - 1, top // 2, self._source.randrange(-top, top)))

    def _number(self, name: str, kind: str) -> int:
        if kind not in _BITS:
            return self._source.choice((0, 1, 9092))
        if name in _NUMBERS:
            return self._source.choice(_NUMBERS[name])
        known = self._producer()
        if name.endswith("producer_id"):
            return known[0]
        if name.endswith("producer_epoch"):
            return known[1]
        return self._source.choice((0, -1, 1))

    def _producer(self) -> tuple[int, int]:
        return self._world.producers.get(f"fuzz-transaction-{self._world.story}", (-1, -1))

    # One line for each kind of field, in the order in which they are tried.
    def _text(self, name: str, owner: str) -> str:  # noqa: C901
        world, source = self._world, self._source
        if "transactional_id" in name:
            return f"fuzz-transaction-{world.story}" if source.random() < 0.9 else world.name("transaction")
        if name == "transactional_id_pattern":
            return source.choice((".*", "fuzz-.*", "", "[", "(a+)+$", "(?=x)", "\\\\1"))
        if name.endswith("group_id") or name.startswith("groups"):
            return world.name("group")
        if name in ("key", "coordinator_keys"):
            return world.name(source.choice(("group", "transaction")))
        if name == "member_id":
            return source.choice((world.member_ids[-1], source.choice(world.member_ids)))
        if name == "group_instance_id":
            return world.name("instance")
        if name == "protocol_type":
            return source.choice(("consumer", "consumer", "connect"))
        if name == "protocol_name" or (name == "name" and "Protocol" in owner):
            return source.choice(("range", "range", "roundrobin"))
        if (name == "name" and "Config" in owner) or name == "configuration_keys":
            return source.choice(tuple(_CONFIGS))
        if name == "value":
            return source.choice(source.choice(tuple(_CONFIGS.values())))
        if name == "feature":
            return source.choice(("transaction.version", "group.version", "metadata.version", "kraft.version"))
        if name.startswith("client_software"):
            return "fuzz"
        if source.random() < 0.03 and not (world.spares_internal_topics and owner.startswith("DeleteTopic")):
            return source.choice(("__consumer_offsets", "__transaction_state", "__cluster_metadata"))
        return world.name("topic") if source.random() < 0.97 else source.choice(("1", "Stable", ".*", "[", "consumer"))

    def _batch(self) -> bytes:
        source = self._source
        producer_id, epoch = self._producer()
        if producer_id < 0 or source.random() < 0.3:
            return good_batch(source)
        sequence = self._world.sequences.get((producer_id, epoch), 0)
        batch = good_batch(source, (producer_id, epoch, sequence), self._transactional)
        self._world.sequences[producer_id, epoch] = sequence + int.from_bytes(batch[57:61], "big")
        return batch
