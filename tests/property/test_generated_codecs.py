"""The generated codecs against the declarations they were written from: plain construct is the oracle.

Every schema in every version: the same bytes, the same values, the same refusals.
"""

import io
import random
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.plain_construct import MALFORMED, schema_construct
from oncelog.protocol.schema import Schema
from tests.support.requests.messages import (
    SCHEMAS,
    as_container,
    every_version,
    generated,
    message_from,
    messages,
    without_bookkeeping,
)
from tests.support.tables import rows
from tools.write_codecs import GENERATED, generate

QUICK = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
# Each message in every version is in test_codecs_against_golden_bytes as well.
SAMPLE_AND_MORE = pytest.mark.parametrize(
    ("schema", "thoroughness"),
    [
        *(pytest.param(schema, 2, id=name) for name, schema in [*SCHEMAS.items()][::4]),
        *(pytest.param(schema, 6, id=f"{name}-more", marks=pytest.mark.slow) for name, schema in SCHEMAS.items()),
    ],
)


def _examples_of_each_version(schema: Schema, count: int) -> int:
    return count * len(schema.version_range)


def _oracle(schema: Schema, version: int, data: bytes) -> tuple[Any, int] | None:
    """Decode with plain construct; return the message and where it ends, or None if construct refuses the data."""
    stream = io.BytesIO(data)
    try:
        return without_bookkeeping(schema_construct(schema, version).parse_stream(stream)), stream.tell()
    except MALFORMED:
        return None


def _decoded(schema: Schema, version: int, data: bytes) -> tuple[Any, int] | None:
    try:
        message, position = generated(schema).decode(memoryview(data), version)
    except ProtocolError:
        return None
    return as_container(message, schema.structure, version, schema.is_flexible(version)), position


@SAMPLE_AND_MORE
def test_generated_and_construct_write_the_same_bytes_and_read_the_same_values(
    schema: Schema, thoroughness: int
) -> None:
    @settings(QUICK, max_examples=_examples_of_each_version(schema, thoroughness))
    @given(st.sampled_from(schema.version_range), st.data())
    def check(version: int, data: st.DataObject) -> None:
        message = data.draw(messages(schema, version))
        container = as_container(message, schema.structure, version, schema.is_flexible(version))
        encoded = b"".join(generated(schema).encode(message, version))
        assert encoded == schema_construct(schema, version).build(container)
        decoded, position = generated(schema).decode(memoryview(b"??" + encoded), version, 2)
        assert decoded == message
        assert position == len(encoded) + 2
        _check_slices(schema, version, message, encoded)
        assert _oracle(schema, version, encoded) == (container, len(encoded))

    check()


def _check_slices(schema: Schema, version: int, message: Any, encoded: bytes) -> None:
    """Encoding and decoding in slices, as a broker does, equal the whole, also if parts are taken away between two
    slices.
    """
    codec = generated(schema)
    if hasattr(codec, "encode_in_slices"):
        written, parts = b"", list[Any]()
        for _ in codec.encode_in_slices(parts, message, version):
            written += b"".join(parts)
            parts.clear()
        assert written + b"".join(parts) == encoded
    if hasattr(codec, "decode_in_slices"):
        assert _last(codec.decode_in_slices(memoryview(encoded), version)) == (message, len(encoded))


def _last(steps: Generator[int, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


@rows("schema, version", every_version(), lambda row: f"{row[0].name}-{row[1]}")
def test_every_truncation_is_refused(schema: Schema, version: int) -> None:
    source = random.Random(f"{schema.name} {version}")
    # The shortest of a few full messages: each of its prefixes is tried.
    candidates = (b"".join(generated(schema).encode(message_from(schema, version, source), version)) for _ in range(4))
    encoded = memoryview(sorted(candidates, key=len)[2])
    decode = generated(schema).decode
    # All of the first 300 bytes, then every seventh: long texts are alike in the middle.
    for end in [*range(min(300, len(encoded))), *range(300, len(encoded), 7)]:
        with pytest.raises(ProtocolError):
            decode(encoded[:end], version)


@SAMPLE_AND_MORE
def test_damaged_messages_are_refused_or_read_just_as_construct_reads_them(schema: Schema, thoroughness: int) -> None:
    @settings(QUICK, max_examples=_examples_of_each_version(schema, thoroughness))
    @given(st.sampled_from(schema.version_range), st.integers(0, 2**32))
    def check(version: int, seed: int) -> None:
        source = random.Random(seed)
        encoded = b"".join(generated(schema).encode(message_from(schema, version, source), version))
        data = _damaged(encoded, source)
        assert _decoded(schema, version, data) == _oracle(schema, version, data)

    check()


def _damaged(encoded: bytes, source: random.Random) -> bytes:
    data = bytearray(encoded)
    for _ in range(source.choice((1, 1, 2, 4)) if data else 0):
        # Lengths, counts, varints and tags are small numbers and runs of ones.
        data[source.randrange(len(data))] = source.choice((0, 1, 2, 0x7F, 0x80, 0xFF, source.randrange(256)))
    return bytes(data)


@SAMPLE_AND_MORE
def test_arbitrary_bytes_are_refused_or_read_just_as_construct_reads_them(schema: Schema, thoroughness: int) -> None:
    @settings(QUICK, max_examples=_examples_of_each_version(schema, thoroughness))
    @given(st.sampled_from(schema.version_range), st.binary(max_size=64))
    def check(version: int, data: bytes) -> None:
        assert _decoded(schema, version, data) == _oracle(schema, version, data)

    check()


@rows("schema", SCHEMAS.values(), lambda schema: schema.name)
def test_a_version_that_does_not_exist_is_refused(schema: Schema) -> None:
    module = generated(schema)
    for version in (schema.version_range.start - 1, schema.version_range.stop):
        with pytest.raises(ProtocolError):
            module.decode(memoryview(b""), version)
        with pytest.raises(ProtocolError):
            module.encode(getattr(module, schema.name)(), version)


def test_the_files_in_git_are_what_the_declarations_give() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in GENERATED.glob("*.py")}
    assert kept == generate()


def test_serving_never_imports_construct() -> None:
    names = sorted(path.stem for path in GENERATED.glob("*.py") if path.stem != "__init__")
    modules = [f"oncelog.protocol.generated.{name}" for name in names]
    modules += [
        "oncelog.protocol.headers",
        "oncelog.protocol.frames",
        "oncelog.protocol.partitioning",
        "oncelog.protocol.state_record_codec",
    ]
    modules += ["oncelog.protocol.records.batch", "oncelog.protocol.records.record", "oncelog.protocol.records.control"]
    program = f"import sys, {', '.join(modules)}\nsys.exit('construct' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
