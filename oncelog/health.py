"""A health check: one ApiVersions request over a plain socket.

Owns: the request, for health checks and scripts. Does not own: a client; nothing here needs an event loop.
"""

import socket

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.frames import FrameReader
from oncelog.protocol.generated import api_versions_request, api_versions_response
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.headers import decode_response_header, encode_request_header

_MAX_ANSWER_BYTES = 1 << 20


class NotHealthy(Exception):
    """The broker does not respond as one; the message says what happened."""


def check_health(host: str, port: int, timeout_s: float) -> int:
    """Number of APIs that the broker supports. Raises NotHealthy."""
    return len(api_versions(host, port, timeout_s))


def api_versions(host: str, port: int, timeout_s: float) -> list[tuple[int, int, int]]:
    """Key, lowest and highest version of each API that the broker supports. Raises NotHealthy."""
    body = b"".join(api_versions_request.encode(ApiVersionsRequest(), 0))
    frame = encode_request_header(api_versions_request.API_KEY, 0, 1, "oncelog-health", flexible=False) + body
    reader = FrameReader(_MAX_ANSWER_BYTES)
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(len(frame).to_bytes(4, "big") + frame)
            while True:
                data = connection.recv(65536)
                if not data:
                    raise NotHealthy(f"{host}:{port} closed the connection without a response")
                for answer in reader.feed(data):
                    return _versions(answer)
    except ProtocolError as error:
        raise NotHealthy(f"{host}:{port} does not speak the Kafka protocol: {error}") from error
    except OSError as error:
        raise NotHealthy(f"{host}:{port} does not respond: {error.strerror or error}") from error


def _versions(answer: memoryview) -> list[tuple[int, int, int]]:
    _, position = decode_response_header(answer, flexible=False)
    response, _ = api_versions_response.decode(answer, 0, position)
    if response.error_code:
        raise NotHealthy(f"ApiVersions failed with error {response.error_code}")
    return [(each.api_key, each.min_version, each.max_version) for each in response.api_keys]
