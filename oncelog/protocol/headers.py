"""Request and response headers.

Owns: the rules for which header an API has. A request header is flexible (v2) when the body is; the client id stays a
plain string even then; any negative length of it is null, and invalid UTF-8 is replaced. A response header is flexible
(v1) when the body is, except for ApiVersions, whose response must be readable before the versions are known (KIP-511):
the caller passes `flexible=False`.
"""

from struct import Struct, error
from typing import NamedTuple

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.message import skip_tags, string

_FIXED = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_START = Struct(">hhi")
_LONGEST_REPLACED = 32_767 // 4
# A NamedTuple's own constructor is a Python function that does only this.
_new_header = tuple.__new__


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(view: memoryview, flexible_from: int) -> tuple[RequestHeader, int]:
    """Decode the header of a request whose API is flexible from that version on; raises ProtocolError."""
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(view)
        position = 10 + max(0, length)
        if position > len(view):
            raise ProtocolError(f"a client id of {length} bytes is announced, {len(view) - 10} are left")
        client_id = _client_id(view[10:position]) if length >= 0 else None
        if api_version >= flexible_from:
            position = skip_tags(view, position) if view[position] else position + 1
    except (error, IndexError) as problem:
        raise ProtocolError(f"the request header is malformed: {problem}") from problem
    return _new_header(RequestHeader, (api_key, api_version, correlation_id, client_id)), position


def _client_id(text: memoryview) -> str:
    try:
        return str(text, "utf-8")
    except UnicodeDecodeError:
        # Nothing depends on it, so invalid UTF-8 does not cost a client its connection. Replacement characters take
        # more bytes than what they replace: truncated, so that responses can repeat the text.
        return str(text, "utf-8", "replace")[:_LONGEST_REPLACED]


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> bytes:
    identity = b"\xff\xff" if client_id is None else string(client_id)
    return _START.pack(api_key, api_version, correlation_id) + identity + (b"\x00" if flexible else b"")


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    return _CORRELATION_ID.pack(correlation_id) + (b"\x00" if flexible else b"")


def decode_response_header(view: memoryview, flexible: bool) -> tuple[int, int]:
    """Return the correlation id and the position of the body; raises ProtocolError."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view)
        return correlation_id, skip_tags(view, 4) if flexible else 4
    except (error, IndexError) as problem:
        raise ProtocolError(f"the response header is malformed: {problem}") from problem
