"""The codecs of rare messages: the code that frequent ones have in files, written when it is first needed.

Owns: when a function is written and compiled: for one version, at its first call. Does not own: its text
(`protocol.codec`), the classes of the message (its module in `protocol.generated`), the checks around it
(`protocol.message`).

Most processes need one function each of few of these messages, so that neither an import nor a start writes any.
Measured, in ms of CPU: a function takes 0.25, one in ten 0.5 or more, the longest 2.5. That is done on the event loop:
all functions of a message in a thread would delay it more, since a thread keeps the interpreter for 5 ms.
"""

import sys
from collections.abc import Callable
from typing import Any

from oncelog.protocol.codec import function_text
from oncelog.protocol.codec_parts import holds_many
from oncelog.protocol.message import (
    Decode,
    DecodeInSlices,
    Encode,
    EncodeInSlices,
    MessageT,
    codec,
    sliced_decode,
    sliced_encode,
)
from oncelog.protocol.schema import Schema


def compiled_request(
    schema: Schema, message: type[MessageT]
) -> tuple[Decode[MessageT], Encode[MessageT], DecodeInSlices[MessageT]]:
    """Return the codec of a request; the classes of its parts are in the module of its own."""
    decode, encode = _codec(schema, message)
    readers = _functions("read", schema, message, sliced=True)
    return decode, encode, sliced_decode(schema.name, schema.version_range, readers, decode)


def compiled_response(
    schema: Schema, message: type[MessageT]
) -> tuple[Decode[MessageT], Encode[MessageT], EncodeInSlices[MessageT]]:
    """Return the codec of a response; the classes of its parts are in the module of its own."""
    decode, encode = _codec(schema, message)
    writers = _functions("write", schema, message, sliced=True)
    return decode, encode, sliced_encode(schema.version_range, writers, encode)


def _codec(schema: Schema, message: type[MessageT]) -> tuple[Decode[MessageT], Encode[MessageT]]:
    readers, writers = _functions("read", schema, message), _functions("write", schema, message)
    return codec(schema.name, schema.version_range, readers, writers)


def _functions(verb: str, schema: Schema, message: type[MessageT], *, sliced: bool = False) -> dict[int, Any]:
    """Return a function for each version; None in slices for one that contains nothing long."""
    return {
        version: _at_first_call(verb, schema, version, message, sliced)
        if not sliced or holds_many(schema.structure, version)
        else None
        for version in schema.version_range
    }


def _at_first_call(
    verb: str, schema: Schema, version: int, message: type[MessageT], sliced: bool
) -> Callable[..., Any]:
    function: Callable[..., Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal function
        if function is None:
            name, text = function_text(schema, verb, version, sliced)
            names = dict(vars(sys.modules[message.__module__]))
            exec(compile(text, f"<{schema.name} {version}>", "exec"), names)
            function = names[name]
        return function(*arguments)

    return call
