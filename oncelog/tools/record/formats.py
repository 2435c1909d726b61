"""Record formats: kcat's letters, and JSON lines.

Owns: what each letter means, the bytes of a record in a format. Does not own: how bytes reach a terminal
(`terminal.say_bytes`).

    %t topic   %p partition   %o offset   %T timestamp in ms   %k key   %s value   %h headers as name=value,...
    %K and %S length of key and value, -1 for none   %R length of the value as four bytes, the highest first
    %C what became of its transaction   %% a percent sign
    \\n \\r \\t \\xHH as in C
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import click

from oncelog.client.values.records import Record

Letter = Literal["C", "A", "O", "-", "M"]
"""The letter of a record: committed, aborted, open, written without a transaction, or a marker (a control record)."""


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record, or a marker, with the fate of its transaction; None if that was not looked up."""

    record: Record
    letter: Letter | None = None
    control: str | None = None
    """COMMIT or ABORT for a marker, whose value is that too."""


def _length(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def _headers(shown: ReadRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in shown.record.headers)


_LETTERS: dict[str, Callable[[ReadRecord], bytes]] = {
    "t": lambda shown: shown.record.topic.encode(errors="surrogatepass"),
    "p": lambda shown: b"%d" % shown.record.partition,
    "o": lambda shown: b"%d" % shown.record.offset,
    "T": lambda shown: b"%d" % shown.record.timestamp_ms,
    "k": lambda shown: shown.record.key or b"",
    "K": lambda shown: _length(shown.record.key),
    "s": lambda shown: shown.record.value or b"",
    "S": lambda shown: _length(shown.record.value),
    "R": lambda shown: (-1 if shown.record.value is None else len(shown.record.value)).to_bytes(4, signed=True),
    "h": _headers,
    "C": lambda shown: (shown.letter or "").encode(),
}
_PIECE = re.compile(
    r"%(?P<letter>.)|\\(?:(?P<escape>[nrt\\])|x(?P<hex>[0-9a-fA-F]{2}))|(?P<text>[^%\\]+|[%\\])", re.DOTALL
)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}

Piece = bytes | Callable[[ReadRecord], bytes]


def parsed(text: str) -> list[Piece]:
    """Return the pieces of a format: bytes that are printed as they are, and what is taken of a record. Raises
    BadParameter."""
    pieces: list[Piece] = []
    for match in _PIECE.finditer(text):
        letter = match["letter"]
        if letter == "%":
            pieces.append(b"%")
        elif letter is not None:
            if letter not in _LETTERS:
                raise click.BadParameter(f"%{letter} is unknown: there are %{' %'.join(_LETTERS)} and %%")
            pieces.append(_LETTERS[letter])
        elif match["escape"] is not None:
            pieces.append(_ESCAPES[match["escape"]])
        elif match["hex"] is not None:
            pieces.append(bytes.fromhex(match["hex"]))
        else:
            pieces.append(match["text"].encode(errors="surrogateescape"))
    return pieces


def unescaped(text: str) -> bytes:
    """Return what was typed, to the byte, with \\n \\t \\r \\xHH as in C."""
    found = b""
    for match in _PIECE.finditer(text):
        if match["escape"] is not None:
            found += _ESCAPES[match["escape"]]
        else:
            found += bytes.fromhex(match["hex"]) if match["hex"] else match[0].encode(errors="surrogateescape")
    return found


def as_row(shown: ReadRecord) -> dict[str, Any]:
    """Return a record for JSON: text where bytes are UTF-8, else base64 under another name."""
    record = shown.record
    row: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    if shown.letter is not None:
        row["transaction"] = shown.letter
    if shown.control is not None:
        return {**row, "control": shown.control}
    headers = [{"name": name, **_text("value", value)} for name, value in record.headers]
    return {**row, **_text("key", record.key), **_text("value", record.value), "headers": headers}


def _text(name: str, data: bytes | None) -> dict[str, Any]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
