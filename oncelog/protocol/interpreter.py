"""Codecs that follow a declaration field by field, for messages that are too rare for generated code.

Owns: reading and writing by a declaration at run time. Does not own: the declarations, the types' readers and writers
(`protocol.message`), the straight-line codecs of frequent messages (`protocol.codec` generates those;
`protocol.plain_construct` is the oracle of both).
Invariants: as in generated code, every announced length is checked before it is used, nothing is read past the end, the
data of a tag ends exactly where its size says, and anything that may be long is read and written in slices.

A version is compiled on first use, into closures that are called field by field. Measured: that takes 0.2 ms, and 1.5
ms for the message with the most fields; reading then takes twice as long as with generated code and writing three
times, small messages five times.
"""

import struct
from collections.abc import Callable, Generator, Iterator, Sequence
from operator import attrgetter
from struct import Struct, pack
from typing import Any, Generic, NamedTuple
from uuid import UUID

from oncelog.protocol import message as wire
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.message import Data, MessageT
from oncelog.protocol.schema import ArrayOf, Field, FieldType, Schema, Structure, attribute
from oncelog.protocol.types import Primitive, Variable

_UUID = Struct(">16s")
Values = list[Any]
Step = Callable[[memoryview, int, Values], Any]
"""Reads into one or more of the values and returns the next position: directly, or as a generator."""


class _Reads(NamedTuple):
    """Reads a value: (view, position) to (value, next position), directly or as a generator."""

    read: Callable[[memoryview, int], Any]
    is_sliced: bool


class _Writes(NamedTuple):
    """Adds the parts of a value, directly or as a generator."""

    write: Callable[[list[Data], Any], Any]
    is_sliced: bool


class Interpreted(Generic[MessageT]):
    """A declared message in all versions; its classes are matched by the names in the declaration."""

    def __init__(self, schema: Schema, message: type[MessageT], *parts: type[Any]) -> None:
        self._schema = schema
        self._classes: dict[str, type[Any]] = {made.__name__: made for made in (message, *parts)}
        self._readers: dict[int, _Reads] = {}
        self._writers: dict[int, _Writes] = {}

    def decode(self, view: memoryview, version: int, position: int = 0) -> tuple[MessageT, int]:
        """Return the message that starts at `position`, and the position after it; raises ProtocolError."""
        steps = self.decode_in_slices(view, version, position)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                decoded: tuple[MessageT, int] = stop.value
                return decoded

    def decode_in_slices(
        self, view: memoryview, version: int, position: int = 0
    ) -> Generator[int, None, tuple[MessageT, int]]:
        """Decode in slices; each step yields the number of further elements read."""
        reader = self._readers.get(version)
        if reader is None:
            reader = self._readers[version] = self._version(version).reader()
        try:
            decoded: tuple[MessageT, int] = (
                (yield from reader.read(view, position)) if reader.is_sliced else reader.read(view, position)
            )
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"{self._schema.name} version {version} is malformed: {error}") from error
        return decoded

    def encode(self, message: MessageT, version: int) -> list[Data]:
        """Return the parts of the encoded message, to be joined; record data is among them unchanged."""
        out: list[Data] = []
        for _ in self.encode_in_slices(out, message, version):
            pass
        return out

    def encode_in_slices(self, out: list[Data], message: MessageT, version: int) -> Iterator[int]:
        """Encode in slices; each step yields the number of further elements, whose parts are in `out` and may be
        removed."""
        writer = self._writers.get(version)
        if writer is None:
            writer = self._writers[version] = self._version(version).writer()
        if writer.is_sliced:
            yield from writer.write(out, message)
        else:
            writer.write(out, message)

    def _version(self, version: int) -> "_Version":
        if version not in self._schema.version_range:
            raise ProtocolError(f"{self._schema.name} has no version {version}")
        return _Version(self._schema, version, self._classes)


def _default(field: Field, classes: dict[str, type[Any]]) -> Any:
    return classes[field.type.name]() if field.defaults_to_structure else field.default_value


class _Version:
    """One version of a message under construction."""

    def __init__(self, schema: Schema, version: int, classes: dict[str, type[Any]]) -> None:
        self._root = schema.structure
        self._version = version
        self._is_flexible = schema.is_flexible(version)
        self._classes = classes

    def reader(self) -> _Reads:
        return self._structure_reader(self._root)

    def writer(self) -> _Writes:
        return self._structure_writer(self._root)

    def _is_long(self, kind: FieldType) -> bool:
        """Whether the structure may have any number of elements."""
        match kind:
            case ArrayOf():
                return True
            case Structure():
                return any(field.in_version(self._version) and self._is_long(field.type) for field in kind.fields)
        return False

    def _runs(self, structure: Structure) -> Iterator[list[Field]]:
        """Yield the untagged fields: numbers that are adjacent both in the message and in its class are grouped."""
        run: list[Field] = []
        for field in structure.fields:
            is_here = field.in_version(self._version) and not field.is_tagged(self._version)
            is_number = is_here and isinstance(field.type, Primitive) and field.type.name != "uuid"
            if run and not is_number:
                yield run
                run = []
            if is_number:
                run.append(field)
            elif is_here:
                yield [field]
        if run:
            yield run

    # --- reading ------------------------------------------------------------------------------------------------------

    def _structure_reader(self, structure: Structure) -> _Reads:
        new = self._classes[structure.name]
        indices = {field.name: index for index, field in enumerate(structure.fields)}
        defaults = [_default(field, self._classes) for field in structure.fields]
        steps: list[tuple[Step, bool]] = []
        for run in self._runs(structure):
            index = indices[run[0].name]
            if isinstance(run[0].type, Primitive) and run[0].type.name != "uuid":
                steps.append((_read_numbers(index, run), False))
            else:
                steps.append(_read_into(index, self._field_reader(run[0])))
        if self._is_flexible:
            steps.append(self._tags_reader(structure.tagged_in(self._version), indices))

        def read_slices(view: memoryview, position: int) -> Generator[int, None, tuple[Any, int]]:
            values = defaults.copy()
            for step, is_sliced in steps:
                position = (yield from step(view, position, values)) if is_sliced else step(view, position, values)
            return new(*values), position

        def read(view: memoryview, position: int) -> tuple[Any, int]:
            values = defaults.copy()
            for step, _ in steps:
                position = step(view, position, values)
            return new(*values), position

        return _Reads(read_slices, True) if self._is_long(structure) else _Reads(read, False)

    def _field_reader(self, field: Field) -> _Reads:
        is_compact, is_nullable = self._is_flexible and not field.plain, field.is_nullable(self._version)
        form = f"{'nullable_' if is_nullable else ''}{'compact_' if is_compact else ''}"
        if isinstance(field.type, ArrayOf):
            return self._array_reader(getattr(wire, f"read_{form}count"), field.type.element, is_compact)
        if isinstance(field.type, Structure) and is_nullable:
            return _maybe_null(self._structure_reader(field.type), field.is_tagged(self._version))
        return self._value_reader(field.type, form)

    def _value_reader(self, kind: FieldType, form: str) -> _Reads:
        match kind:
            case Structure():
                return self._structure_reader(kind)
            case Variable():
                return _Reads(getattr(wire, f"read_{form}{kind.name}"), False)
            case Primitive(name="uuid"):
                return _Reads(_read_uuid, False)
            case Primitive():
                return _Reads(_number_reader(Struct(f">{kind.letter}")), False)
        raise TypeError(f"{kind!r} in an array or by itself")

    def _array_reader(self, read_count: Callable[..., Any], element: FieldType, is_compact: bool) -> _Reads:
        if isinstance(element, Primitive) and element.name != "uuid":
            letter, size = element.letter, element.size

            def read_numbers(view: memoryview, position: int) -> Generator[int, None, tuple[Any, int]]:
                count, position = read_count(view, position)
                if count < 0:
                    return None, position
                numbers = yield from wire.read_numbers_in_slices(view, position, count, letter)
                return numbers, position + count * size

            return _Reads(read_numbers, True)
        read, is_sliced = self._value_reader(element, "compact_" if is_compact else "")

        def read_array(view: memoryview, position: int) -> Generator[int, None, tuple[Any, int]]:
            count, position = read_count(view, position)
            if count < 0:
                return None, position
            items = []
            for _ in range(count):
                item, position = (yield from read(view, position)) if is_sliced else read(view, position)
                items.append(item)
                yield 1
            return items, position

        return _Reads(read_array, True)

    def _tags_reader(self, fields: list[Field], indices: dict[str, int]) -> tuple[Step, bool]:
        known = {field.tag: _read_into(indices[field.name], self._field_reader(field)) for field in fields}
        if not known:
            return _skip_tags, False

        def read_slices(view: memoryview, position: int, values: Values) -> Generator[int, None, int]:
            count, position = wire.read_varint(view, position)
            for _ in range(count):
                tag, position, end = wire.read_tag(view, position)
                step, is_sliced = known.get(tag, (None, False))
                if step is None:
                    position = end
                else:
                    position = (yield from step(view, position, values)) if is_sliced else step(view, position, values)
                if position != end:
                    wire.refuse_tag(tag, position, end)
            return position

        if any(is_sliced for _, is_sliced in known.values()):
            return read_slices, True
        return (lambda view, position, values: _whole(read_slices(view, position, values))), False

    # --- writing ------------------------------------------------------------------------------------------------------

    def _structure_writer(self, structure: Structure) -> _Writes:
        steps: list[tuple[Callable[[Any], Any], _Writes]] = []
        for run in self._runs(structure):
            get = attrgetter(*(attribute(field.name) for field in run))
            if len(run) > 1:
                letters = "".join(field.type.letter for field in run)
                steps.append((get, _Writes(_numbers_writer(Struct(f">{letters}")), False)))
            else:
                steps.append((get, self._field_writer(run[0])))
        if self._is_flexible:
            steps.append((_itself, self._tags_writer(structure.tagged_in(self._version))))

        def write_slices(out: list[Data], message: Any) -> Iterator[int]:
            for get, (write_field, is_sliced) in steps:
                if is_sliced:
                    yield from write_field(out, get(message))
                else:
                    write_field(out, get(message))

        def write(out: list[Data], message: Any) -> None:
            for get, (write_field, _) in steps:
                write_field(out, get(message))

        return _Writes(write_slices, True) if self._is_long(structure) else _Writes(write, False)

    def _field_writer(self, field: Field) -> _Writes:
        is_compact, is_nullable = self._is_flexible and not field.plain, field.is_nullable(self._version)
        if isinstance(field.type, ArrayOf):
            form = f"{'nullable_' if is_nullable else ''}{'compact_' if is_compact else ''}"
            return self._array_writer(getattr(wire, f"{form}count"), field.type.element, is_compact)
        writes = self._value_writer(field.type, is_compact, is_nullable)
        if not isinstance(field.type, Structure) or not is_nullable:
            return writes
        null = b"\x00" if field.is_tagged(self._version) else b"\xff"
        write, is_sliced = writes

        def write_or_null(out: list[Data], value: Any) -> Iterator[int]:
            out.append(null if value is None else b"\x01")
            if value is not None:
                if is_sliced:
                    yield from write(out, value)
                else:
                    write(out, value)

        return _Writes(write_or_null, True) if is_sliced else _Writes(_at_once(write_or_null), False)

    def _value_writer(self, kind: FieldType, is_compact: bool, is_nullable: bool) -> _Writes:
        match kind:
            case Structure():
                return self._structure_writer(kind)
            case Variable(name="string"):
                form = f"{'nullable_' if is_nullable else ''}{'compact_' if is_compact else ''}"
                text: Callable[[Any], bytes] = getattr(wire, f"{form}string")
                return _Writes(lambda out, value: out.append(text(value)), False)
            case Variable():
                return _Writes(lambda out, value: wire.write_data(out, value, is_compact), False)
            case Primitive(name="uuid"):
                return _Writes(lambda out, value: out.append(value.bytes), False)
            case Primitive():
                packed = Struct(f">{kind.letter}").pack
                return _Writes(lambda out, value: out.append(packed(value)), False)
        raise TypeError(f"{kind!r} in an array or by itself")

    def _array_writer(self, count: Callable[[Any], bytes], element: FieldType, is_compact: bool) -> _Writes:
        if isinstance(element, Primitive) and element.name != "uuid":
            letter = element.letter

            def write_numbers(out: list[Data], numbers: Sequence[int] | None) -> Iterator[int]:
                out.append(count(numbers))
                if numbers:
                    out.append(pack(f">{len(numbers)}{letter}", *numbers))
                    yield len(numbers) // 16

            return _Writes(write_numbers, True)
        write, is_sliced = self._value_writer(element, is_compact, False)

        def write_array(out: list[Data], items: Sequence[Any] | None) -> Iterator[int]:
            out.append(count(items))
            for item in items or ():
                if is_sliced:
                    yield from write(out, item)
                else:
                    write(out, item)
                yield 1

        return _Writes(write_array, True)

    def _tags_writer(self, fields: list[Field]) -> _Writes:
        if not fields:
            return _Writes(_no_tags, False)
        known = [
            (field.tag or 0, attribute(field.name), _default(field, self._classes), *self._field_writer(field))
            for field in fields
        ]

        def write_slices(out: list[Data], message: Any) -> Iterator[int]:
            tags: list[tuple[int, list[Data]]] = []
            for tag, name, default, write, is_sliced in known:
                value = getattr(message, name)
                if _differs(value, default):
                    data: list[Data] = []
                    if is_sliced:
                        yield from write(data, value)
                    else:
                        write(data, value)
                    tags.append((tag, data))
            wire.write_tags(out, tags)

        if any(is_sliced for *_, is_sliced in known):
            return _Writes(write_slices, True)
        return _Writes(_at_once(write_slices), False)


def _skip_tags(view: memoryview, position: int, _values: Values) -> int:
    return wire.skip_tags(view, position)


def _no_tags(out: list[Data], _message: Any) -> None:
    out.append(b"\x00")


def _differs(value: Any, default: Any) -> bool:
    if default == ():
        return value is None or len(value) > 0  # empty as a list or as a tuple
    return bool(value != default)


def _read_into(index: int, reads: _Reads) -> tuple[Step, bool]:
    """Return the step that reads one value."""
    read = reads.read

    def step_slices(view: memoryview, position: int, values: Values) -> Generator[int, None, int]:
        values[index], position = yield from read(view, position)
        return position

    def step(view: memoryview, position: int, values: Values) -> int:
        values[index], position = read(view, position)
        return position

    return (step_slices, True) if reads.is_sliced else (step, False)


def _read_numbers(index: int, run: list[Field]) -> Step:
    numbers = Struct(">" + "".join(field.type.letter for field in run))
    unpack_from, size, end = numbers.unpack_from, numbers.size, index + len(run)

    def step(view: memoryview, position: int, values: Values) -> int:
        values[index:end] = unpack_from(view, position)
        return position + size

    return step


def _number_reader(number: Struct) -> Callable[[memoryview, int], tuple[Any, int]]:
    return lambda view, position: (number.unpack_from(view, position)[0], position + number.size)


def _read_uuid(view: memoryview, position: int) -> tuple[UUID, int]:
    return UUID(bytes=_UUID.unpack_from(view, position)[0]), position + 16


def _maybe_null(reads: _Reads, is_tagged: bool) -> _Reads:
    """Return the function for a nullable structure: -1 and below is null (KIP-893), in a tagged field a varint 0."""
    read, is_sliced = reads

    def read_slices(view: memoryview, position: int) -> Generator[int, None, tuple[Any, int]]:
        if is_tagged:
            mark, position = wire.read_varint(view, position)
            is_null = mark == 0
        else:
            is_null, position = view[position] > 0x7F, position + 1
        if is_null:
            return None, position
        value, position = (yield from read(view, position)) if is_sliced else read(view, position)
        return value, position

    if is_sliced:
        return _Reads(read_slices, True)
    return _Reads(lambda view, position: _whole(read_slices(view, position)), False)


def _numbers_writer(numbers: Struct) -> Callable[[list[Data], Sequence[Any]], None]:
    return lambda out, values: out.append(numbers.pack(*values))


def _itself(message: Any) -> Any:
    return message


def _whole(steps: Generator[int, None, Any]) -> Any:
    """Return the result of steps that are short enough to run at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def _at_once(write_slices: Callable[[list[Data], Any], Iterator[int]]) -> Callable[[list[Data], Any], None]:
    def write(out: list[Data], value: Any) -> None:
        for _ in write_slices(out, value):
            pass

    return write
