"""A health check: one ApiVersions request over a plain socket.

Owns: the request, for health checks and scripts. Does not own: a client; nothing here needs an event loop.
"""

import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.frames import FrameReader
from oncelog.protocol.generated import api_versions_request, api_versions_response
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.headers import decode_response_header, encode_request_header

if TYPE_CHECKING:
    from ssl import SSLContext

_MAX_ANSWER_BYTES = 1 << 20


class NotHealthy(Exception):
    """Raised if the broker does not respond as one; the message says what happened."""


class NotABroker(NotHealthy):
    """Raised if something listens there, and does not respond as a broker does in this protocol."""


def check_health(host: str, port: int, timeout_s: float, context: "SSLContext | None" = None) -> int:
    """Return the number of APIs that the broker supports; over TLS with a context. Raises NotHealthy."""
    return len(api_versions(host, port, timeout_s, context))


def api_versions(
    host: str, port: int, timeout_s: float, context: "SSLContext | None" = None
) -> list[tuple[int, int, int]]:
    """Return the key, lowest and highest version of each API that the broker supports, which it returns before a login.
    Raises NotHealthy."""
    body = b"".join(api_versions_request.encode(ApiVersionsRequest(), 0))
    frame = encode_request_header(api_versions_request.API_KEY, 0, 1, "oncelog-health", flexible=False) + body
    reader = FrameReader(_MAX_ANSWER_BYTES)
    end_s = time.monotonic() + timeout_s
    is_connected = False
    try:
        with ExitStack() as stack:
            connection = stack.enter_context(socket.create_connection((host, port), timeout_s))
            is_connected = True
            if context is not None:
                connection = stack.enter_context(context.wrap_socket(connection, server_hostname=host))
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            while True:
                # Of all of it: an answer byte by byte would have restarted the time with each.
                connection.settimeout(max(0.001, end_s - time.monotonic()))
                data = connection.recv(65536)
                if not data:
                    raise NotABroker(f"{host}:{port} closed the connection without a response")
                for answer in reader.feed(data):
                    return _versions(answer)
    except ProtocolError as error:
        raise NotABroker(f"{host}:{port} does not speak the Kafka protocol: {error}") from error
    except OSError as error:
        raise _not_healthy(host, port, error, NotABroker if is_connected else NotHealthy) from error


def certificate_end_s(host: str, port: int, timeout_s: float, context: "SSLContext") -> int:
    """Return when the broker's certificate ends, in seconds since 1970. Raises NotHealthy."""
    from ssl import cert_time_to_seconds

    try:
        with (
            socket.create_connection((host, port), timeout_s) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert()
    except OSError as error:
        raise _not_healthy(host, port, error) from error
    return int(cert_time_to_seconds(str((shown or {})["notAfter"])))


def _not_healthy(host: str, port: int, error: OSError, kind: type[NotHealthy] = NotHealthy) -> NotHealthy:
    said = getattr(error, "verify_message", None)
    if said is None:
        return kind(f"{host}:{port} does not respond: {error.strerror or error}")
    from oncelog.protocol.certificate_errors import certificate_hint

    hint = certificate_hint(said)
    return kind(f"the certificate of {host}:{port} is not accepted: {said}{f'; {hint}' if hint else ''}")


def _versions(answer: memoryview) -> list[tuple[int, int, int]]:
    _, position = decode_response_header(answer, flexible=False)
    response, _ = api_versions_response.decode(answer, 0, position)
    if response.error_code:
        raise NotHealthy(f"ApiVersions failed with error {response.error_code}")
    return [(each.api_key, each.min_version, each.max_version) for each in response.api_keys]
