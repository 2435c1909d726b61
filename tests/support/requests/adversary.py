"""Requests that ask for as much as they can in few bytes: one array of a message made long, of one element or of many.

Owns: which arrays a request has and what an element of each is. Does not own: what a request costs (`costs`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from oncelog.broker.apis.descriptor import Api
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure, attribute
from oncelog.protocol.types import Primitive, Variable
from tests.fuzz.requests import request_schema
from tests.support.requests.messages import generated

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """Names of what is stored, for requests to ask for."""

    topics: list[str]
    topic_ids: list[UUID]
    groups: list[str]
    transactional_ids: list[str]
    patterns: tuple[str, ...] = (".*",)
    batches: tuple[bytes, ...] = (b"",)
    """The batches that clients write; an attack sends the first ones, which are harmless, by default."""
    settings: tuple[tuple[str, str], ...] = ()
    """The settings that a request sets, if it sets any."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A request of one API and version in which the array at `path` has many elements, and so have those around it."""

    api: Api
    version: int
    path: Path
    is_same: bool
    """All its elements are the same."""

    def __str__(self) -> str:
        kind = "same" if self.is_same else "different"
        return f"{self.api.name} v{self.version} {'.'.join(self.path) or 'plain'} {kind}"

    def message(self, stored: Stored, element_count: int) -> Any:
        """About so many elements in all."""
        return _Writer(self, stored, element_count).structure(request_schema(self.api).structure, (), 0)


def attacks(api: Api, version: int) -> Iterator[Attack]:
    schema = request_schema(api)
    yield Attack(api, version, (), True)
    for path in _arrays(schema.structure, version, ()):
        for is_same in (True, False):
            yield Attack(api, version, path, is_same)


def _arrays(structure: Structure, version: int, path: Path) -> Iterator[Path]:
    for field in (*structure.fields_in(version), *structure.tagged_in(version)):
        here = (*path, field.name)
        kind = field.type
        if isinstance(kind, ArrayOf):
            yield here
            kind = kind.element
        if isinstance(kind, Structure):
            yield from _arrays(kind, version, here)


class _Writer:
    def __init__(self, attack: Attack, stored: Stored, element_count: int) -> None:
        self._attack = attack
        self._stored = stored
        self._module = generated(request_schema(attack.api))
        schema: Schema = request_schema(attack.api)
        depth = sum(
            attack.path[:end] in set(_arrays(schema.structure, attack.version, ()))
            for end in range(1, 1 + len(attack.path))
        )
        self._count = max(2, round(element_count ** (1 / max(1, depth))))
        """Nested arrays share the elements: as many in each."""

    def structure(self, structure: Structure, path: Path, number: int) -> Any:
        version = self._attack.version
        values = {
            attribute(field.name): self._field(field, (*path, field.name), number)
            for field in (*structure.fields_in(version), *structure.tagged_in(version))
        }
        return getattr(self._module, structure.name)(**values)

    def _field(self, field: Field, path: Path, number: int) -> Any:
        attacked = self._attack.path
        if field.name in ("group_instance_id", "instance_id") and field.is_nullable(self._attack.version):
            return None  # one that another member holds is refused before anything costs
        if not isinstance(field.type, ArrayOf):
            return self._value(field.name, field.type, path, number)
        is_attacked = attacked[: len(path)] == path
        if not is_attacked and field.is_nullable(self._attack.version):
            # None often asks for all there is; a member that joins has nothing yet.
            return (
                () if (self._attack.api.name, field.name) == ("consumer_group_heartbeat", "topic_partitions") else None
            )
        if not is_attacked and field.name.endswith("_filters"):
            return ()  # which would keep from the handler what is costly
        count = self._count if is_attacked else 1
        same = self._attack.is_same or not is_attacked
        if same:
            return [self._value(field.name, field.type.element, path, number)] * count
        return [self._value(field.name, field.type.element, path, index) for index in range(count)]

    def _value(self, name: str, kind: Any, path: Path, number: int) -> Any:
        match kind:
            case Structure():
                return self.structure(kind, path, number)
            case Variable(name="string"):
                return self._text(name, path, number)
            case Variable(name="records"):
                batches = self._stored.batches
                return memoryview(batches[number % len(batches)])
            case Variable():
                return b""
            case Primitive(name="bool"):
                return True
            case Primitive(name="uuid"):
                ids = self._stored.topic_ids
                return ids[number] if number < len(ids) else UUID(int=number + 1)
            case Primitive(name="float64"):
                return 0.0
            case Primitive(name=size):
                return self._number(name, number) & 0x7F if size == "int8" else self._number(name, number)
        raise TypeError(kind)

    def _text(self, name: str, path: Path, number: int) -> str:
        stored = self._stored
        if stored.settings and "configs" in path[:-1] and name in ("name", "value"):
            return stored.settings[number % len(stored.settings)][name == "value"]
        if name.endswith(("pattern", "regex")):
            return stored.patterns[number % len(stored.patterns)]
        if name == "server_assignor":
            return "range"
        if "transactional_id" in name:
            known = stored.transactional_ids
        elif "group" in name or name == "key":
            known = stored.groups
        elif name == "resource_name":
            return ("", "1", stored.topics[0], *map(str, range(2, number + 1)))[number]
        elif name in ("name", "topic", "topic_name", "names", "topic_names"):
            known = stored.topics
        else:
            return str(number)
        return known[number] if number < len(known) else f"x{number}"

    def _number(self, name: str, number: int) -> int:
        match name:
            case "resource_type" | "resource_types":
                return (4, 4, 2, 32)[min(number, 3)]
            case "timestamp" | "acks" | "session_epoch" | "producer_id" | "generation_id" | "num_partitions":
                return -1
            case "replication_factor" | "replica_id" | "current_leader_epoch" | "generation_id_or_member_epoch":
                return -1
            case "count":
                return 100
            case "rebalance_timeout_ms":
                return 1_000
            case "partition_max_bytes" | "max_bytes" | "response_partition_limit":
                return 1 << 20
            case "max_wait_ms" | "min_bytes" | "timeout_ms" | "key_type":
                return 0
        return min(number, 30_000)
