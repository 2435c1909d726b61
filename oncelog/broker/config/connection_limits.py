"""The value of `max.connections.per.ip.overrides`: `host:count`, separated by commas.

Owns: its syntax. Does not own: the counting (`broker.net.quotas`). Invariant: a parsed value has an address for each
host.
"""

import socket


def parse_connection_limits(text: str) -> dict[str, int]:
    """Return the maximum number of connections per address. A host name stands for its addresses. Raises ValueError."""
    limits: dict[str, int] = {}
    for item in text.split(",") if text.strip() else ():
        host, separator, count = item.strip().rpartition(":")
        if not separator or not host or not count.isascii() or not count.isdigit():
            raise ValueError(f"{item.strip()!r} is not of the form HOST:COUNT, such as 10.0.0.7:100")
        for address in _addresses(host.strip("[]")):
            limits[address] = int(count)
    return limits


def _addresses(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{host!r} is neither an address nor a resolvable name") from error
    return [str(address[0]) for *_, address in found]
