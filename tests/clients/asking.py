"""Questions to any Kafka-compatible broker as plain data, and what counts of the answers.

    asker.ask("DeleteGroups", 2, "results{group_id error_code}", groups_names=["a", "b"])

A request is an API's name, a version and fields. A structure in it is a dictionary of its fields, or a tuple of them in
the order of Kafka's schema; a field that the message does not have is an error.

A shape says what counts of an answer:

    error_code                           the error by its name
    group_state group_epoch              several values: a tuple
    topics.name                          a path; over a list, the value of each row
    groups.0.group_state                 a number picks a row
    members(member_id member_epoch)      these of each row, in the order of the answer; of a structure, one tuple
    members{member_id member_epoch}      the same, sorted
    partitions{}                         the values, sorted
    (group_state group_epoch)            a tuple of several values of the same row; in [] a list of them
    topics/partitions{name error_code}   the rows in the rows as one list; a row has its outer row's fields, too
    members:len                          what a function of `WAYS`, or of the caller, makes of the value

Owns: requests from data, shapes, and the set-up that conversations share. Does not own: any question.
"""

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Protocol
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.protocol.schema import ArrayOf, Schema, Structure

Told = Iterator[tuple[str, Any]]
"""Questions by name, each with what counts of its answer."""
Way = Callable[[Any], Any]
WAYS: Mapping[str, Way] = {"bool": bool, "bytes": bytes, "int": int, "len": len, "list": list, "tuple": tuple}
NO_ID = UUID(int=0)
AT_MS = 1_700_000_000_000
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_TOKEN = re.compile(r"[\w./:]*[({\[]|[\w./:]+|[)}\]]")
_ENDS = {"(": ")", "{": "}", "[": "]"}
_PATIENCE = 1_000


class Reply(Protocol):
    """An answer, once it is there: `tests.fakes.broker.Reply` or `tests.clients.wire.WireReply`."""

    @property
    def is_there(self) -> bool: ...

    @property
    def message(self) -> Any: ...


class Broker(Protocol):
    """A broker in virtual time, or one behind a socket."""

    def send(self, request: Message, version: int, *, client_id: str = "client") -> Reply: ...

    def let_pass(self, delay_ms: int) -> None: ...


def name(code: int) -> str:
    return ErrorCode(code).name


# --- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Builder:
    """Makes a structure of its fields."""

    make: Callable[..., Any]
    names: Sequence[str]
    rows: Mapping[str, "_Builder"]
    """The fields that are lists of structures."""
    parts: Mapping[str, "_Builder"]
    """The fields that are structures."""

    def __call__(self, given: Any) -> Any:
        if isinstance(given, tuple):
            if len(given) > len(self.names):
                raise ValueError(f"{len(given)} values for {len(self.names)} fields: {', '.join(self.names)}")
            given = dict(zip(self.names, given, strict=False))
        elif not isinstance(given, dict):
            return given
        values = dict(given)
        for name, build in self.rows.items():
            if values.get(name) is not None:
                values[name] = [build(row) for row in values[name]]
        for name, build in self.parts.items():
            if name in values:
                values[name] = build(values[name])
        return self.make(**values)


@cache
def _builder(api: str) -> _Builder:
    snake = _CAPITAL.sub("_", api).lower()
    schema: Schema = getattr(import_module(f"oncelog.protocol.messages.{snake}"), f"{snake}_request".upper())
    return _built_by(import_module(f"oncelog.protocol.generated.{snake}_request"), schema.structure)


def _built_by(module: Any, structure: Structure) -> _Builder:
    kinds = {field.name: field.type for field in structure.fields}
    rows = {name: kind.element for name, kind in kinds.items() if isinstance(kind, ArrayOf)}
    return _Builder(
        getattr(module, structure.name),
        list(kinds),
        {name: _built_by(module, row) for name, row in rows.items() if isinstance(row, Structure)},
        {name: _built_by(module, kind) for name, kind in kinds.items() if isinstance(kind, Structure)},
    )


def request(api: str, /, **fields: Any) -> Any:
    return _builder(api)(fields)


def one_partition(name: str, index: int = 0, /, *, key: str = "name", **fields: Any) -> list[dict[str, Any]]:
    """The topics of a request that is about one partition."""
    return [{key: name, "partitions": [{"partition_index": index, **fields}]}]


def batch(
    values: Sequence[bytes | tuple[bytes | None, bytes | None]] | int = 1, at_ms: int = AT_MS, **identity: Any
) -> bytes:
    """A batch of these values, of keys with values, or of so many records."""
    each = [b"value"] * values if isinstance(values, int) else values
    pairs = [(None, value) if isinstance(value, bytes) else value for value in each]
    return encode_batch([Record(index, at_ms, key, value) for index, (key, value) in enumerate(pairs)], **identity)


# --- answers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    paths: tuple[tuple[str, ...], ...]
    way: str
    opened: str
    inner: tuple["_Part", ...]


@cache
def _parsed(shape: str) -> tuple[_Part, ...]:
    tokens = _TOKEN.findall(shape)
    if "".join(tokens) != re.sub(r"\s", "", shape):
        raise ValueError(f"{shape!r} is no shape")
    return _parts(iter(tokens), "", shape)


def _parts(tokens: Iterator[str], end: str, shape: str) -> tuple[_Part, ...]:
    """The parts up to the bracket that ends them, or up to the end of the shape."""
    parts: list[_Part] = []
    for token in tokens:
        if token == end:
            return tuple(parts)
        text, opened = (token[:-1], token[-1]) if token[-1] in _ENDS else (token, "")
        if not opened and text in _ENDS.values():
            break
        path, _, way = text.partition(":")
        paths = tuple(tuple(each.split(".")) for each in path.split("/")) if path else ()
        parts.append(_Part(paths, way, opened, _parts(tokens, _ENDS[opened], shape) if opened else ()))
    else:
        if not end:
            return tuple(parts)
    raise ValueError(f"{shape!r} is no shape")


def counts(answer: Any, shape: str, **ways: Way) -> Any:
    """What counts of an answer, or of a row of one; `ways` are further functions of values."""
    return _all(_parsed(shape), (answer,), {**WAYS, **ways})


def same(value: Any) -> Way:
    return lambda found: found == value


def since(least: int, version: int) -> Way:
    """A way for fields that answers have from a version on: before it they are None."""
    return lambda found: found if version >= least else None


def _all(parts: tuple[_Part, ...], scope: tuple[Any, ...], ways: Mapping[str, Way]) -> Any:
    if len(parts) == 1:
        return _taken(parts[0], scope, ways)
    return tuple(_taken(part, scope, ways) for part in parts)


def _taken(part: _Part, scope: tuple[Any, ...], ways: Mapping[str, Way]) -> Any:
    if not part.paths:
        return _inner(part, scope, ways)
    scopes = [scope]
    for path in part.paths[:-1]:
        scopes = [(row, *each) for each in scopes for row in _at(path, each) or ()]
    found = [(_at(part.paths[-1], each), each) for each in scopes]
    if len(part.paths) > 1:
        found = [(row, each) for rows, each in found for row in rows or ()]
    elif part.opened and isinstance(found[0][0], list | tuple):
        found = [(row, scope) for row in found[0][0]]
    else:
        return _shown(part, *found[0], ways)
    rows = [_shown(part, *each, ways) for each in found]
    return sorted(rows, key=_order) if part.opened == "{" else rows


def _inner(part: _Part, scope: tuple[Any, ...], ways: Mapping[str, Way]) -> Any:
    found = _all(part.inner, scope, ways)
    return list(found) if part.opened == "[" else found


def _shown(part: _Part, value: Any, scope: tuple[Any, ...], ways: Mapping[str, Way]) -> Any:
    if part.inner:
        return None if value is None else _inner(part, (value, *scope), ways)
    if part.way:
        return ways[part.way](value)
    if value is None or not part.paths[-1][-1].endswith("error_code"):
        return value
    return [name(code) for code in value] if isinstance(value, list) else name(value)


def _at(path: tuple[str, ...], scope: tuple[Any, ...]) -> Any:
    value = getattr(next((row for row in scope if hasattr(row, path[0])), scope[0]), path[0])
    for step in path[1:]:
        if step.isdigit():
            value = value[int(step)]
        elif isinstance(value, list | tuple):
            value = [getattr(row, step) for row in value]
        elif value is not None:
            value = getattr(value, step)
    return value


def _order(value: Any) -> Any:
    """Nothing before something."""
    if isinstance(value, list | tuple):
        return [_order(each) for each in value]
    return (value is not None, value)


# --- asking -----------------------------------------------------------------------------------------------------------


def parts_of(talk: Any, *parts: Callable[[Any], Told]) -> Told:
    """A conversation in parts: the name of the part stands before each of its questions."""
    for part in parts:
        for question, answer in part(talk):
            yield f"{part.__name__}: {question}", answer


def text_of(topic_id: UUID) -> str:
    """Write a topic id as Kafka does."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


class Asker:
    """A broker that answers questions; it has topics, which are known by their names."""

    coordinators: tuple[tuple[int, str], ...] = ((0, "any"), (1, "any"))
    """Kinds and keys of those that are there after the set-up."""
    pause_ms = 50

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.ids: dict[str, UUID] = {"no topic": UUID(int=77), "zero": NO_ID}

    def send(self, api: str, version: int, /, **fields: Any) -> Reply:
        return self.broker.send(request(api, **fields), version)

    def ask(self, api: str, version: int, shape: str | None = None, /, **fields: Any) -> Any:
        """The answer, which may take a while, or what counts of it."""
        reply = self.send(api, version, **fields)
        for _ in range(_PATIENCE):
            if reply.is_there:
                return reply.message if shape is None else self.counts(reply.message, shape)
            self.broker.let_pass(self.pause_ms)
        raise AssertionError(f"no answer to {api} {fields}")

    def counts(self, answer: Any, shape: str, **ways: Way) -> Any:
        """What counts of an answer: `:topic` is the name of a topic id, `:plain` a text without topic ids."""
        return counts(answer, shape, topic=self.shown_id, plain=self.plain, **ways)

    def until(self, is_right: Way, api: str, version: int, shape: str | None = None, /, **fields: Any) -> Any:
        """Ask until the answer is right."""
        for _ in range(_PATIENCE):
            found = self.ask(api, version, shape, **fields)
            if is_right(found):
                return found
            self.broker.let_pass(self.pause_ms)
        raise AssertionError(f"{api} {fields} stays at {found}")

    def prepare(self, **topics: int) -> None:
        """Topics with so many partitions, and every coordinator is there."""
        for topic, count in topics.items():
            self.create(topic, count)
        self.await_coordinators()

    def await_coordinators(self) -> None:
        shape = "coordinators.0.error_code"
        for key_type, key in self.coordinators:
            fields = {"coordinator_keys": [key], "key_type": key_type}
            self.until(lambda found: found == "NONE", "FindCoordinator", 6, shape, **fields)
        # The coordinator of a group may still be loading.
        self.until(_is_loaded, "DescribeGroups", 5, "groups.0.error_code", groups=["any"])

    def create(self, topic: str, count: int = 1, **configs: str) -> UUID:
        """A topic that is ready; the names of its settings have underscores instead of dots."""
        made = {"name": topic, "num_partitions": count, "replication_factor": 1, "configs": settings(configs)}
        asked = {"topics": [made], "timeout_ms": 10_000}
        # A broker that has just started may not have a controller yet.
        created = self.until(lambda answer: not answer.error_code, "CreateTopics", 7, "topics.0", **asked)
        self.ids[topic] = created.topic_id
        partitions = [{"partition_index": index, "timestamp": -1} for index in range(count)]
        ends = {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}
        # A topic may be there before its partitions are.
        self.until(lambda found: {*found} == {"NONE"}, "ListOffsets", 7, "topics/partitions.error_code", **ends)
        return self.ids[topic]

    def shown_id(self, topic_id: UUID) -> str:
        return next((topic for topic, known in self.ids.items() if known == topic_id), "?")

    def plain(self, message: str | None) -> str | None:
        """A text with the names of topics instead of their ids."""
        if message is not None:
            for topic, topic_id in self.ids.items():
                message = message.replace(text_of(topic_id), f"<{topic}>").replace(str(topic_id), f"<{topic}>")
        return message


def _is_loaded(error: str) -> bool:
    return not ErrorCode[error].retriable


def settings(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Settings from names with underscores instead of dots."""
    texts = {key.replace("_", "."): value if value is None else str(value) for key, value in values.items()}
    return [{"name": key, "value": text} for key, text in texts.items()]
