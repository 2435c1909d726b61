"""The values of `listeners` and its companions, parsed into addresses.

Owns: their syntax, which listeners are opened, what is advertised, which hosts mean the machine itself. Does not own:
sockets (`broker.net.listener`).
Invariants
- Controller listeners are left out: one node has no separate controller.
- No listener is opened with less security than configured: each has its protocol, and one without is rejected.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

_ENTRY = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]+)://)?"
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]*(?:%[A-Za-z0-9_.-]+)?)\]|(?P<bare>[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)"
    r"|(?P<host>[^\[\]:/@\s]*)):(?P<port>\d{1,5})\Z"
)
"""An IPv6 address may have a zone, as `fe80::1%eth0`, and, as in Kafka, no brackets."""
ANY_V6 = "::"
"""The address that is every address of the machine, of both families, as in Kafka."""
_ANY_HOST = ("", "0.0.0.0", ANY_V6)


class SecurityProtocol(Enum):
    """Kafka's own names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class ListenerError(Exception):
    """An invalid listener; the message names the key and what to write."""


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """One listener: the address to bind and the one to advertise. Port 0 asks for a free one."""

    name: str
    protocol: SecurityProtocol
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    is_guess: bool = False
    """True if no advertised address was configured and the listener binds no specific address: it is this machine's
    name."""


@dataclass(frozen=True, slots=True)
class _Address:
    name: str
    host: str
    port: int


def parse_listeners(
    listeners: Sequence[str],
    advertised: Sequence[str],
    protocol_map: str,
    controller_names: Sequence[str],
    host_name: Callable[[], str],
) -> tuple[ListenerConfig, ...]:
    """Return the listeners to open. Raises ListenerError."""
    bound = [address for address in _addresses("listeners", listeners) if address.name not in controller_names]
    if not bound:
        raise ListenerError("listeners names no listener for clients: write listeners=PLAINTEXT://127.0.0.1:9092")
    protocols = _protocols_of([address.name for address in bound], protocol_map)
    advertised_by_name = {
        address.name: address
        for address in _addresses("advertised.listeners", advertised)
        if address.name not in controller_names
    }
    for name in advertised_by_name.keys() - {address.name for address in bound}:
        raise ListenerError(f"advertised.listeners has {name}, which listeners lacks: the names must be the same")
    for address in advertised_by_name.values():
        if address.host in _ANY_HOST:
            raise ListenerError(
                f"advertised.listeners cannot be {address.host or 'an empty host'}: write the name or address "
                "that clients can reach"
            )
    return tuple(
        _with_advertised(address, protocols[address.name], advertised_by_name.get(address.name), host_name)
        for address in bound
    )


def listeners_from_advertised(advertised: str) -> str:
    """Return every advertised listener, bound to all interfaces, as the apache/kafka image does if only those are
    configured."""
    return re.sub(r"://[^,]*:", "://0.0.0.0:", advertised)


def with_names_of(advertised: str, listeners: str) -> str:
    """Return the advertised listeners that `listeners` also names."""
    names = {item.partition("://")[0].strip().upper() for item in listeners.split(",")}
    return ",".join(item for item in advertised.split(",") if item.partition("://")[0].strip().upper() in names)


def with_listener_name(text: str) -> str:
    """Put before HOST:PORT the listener name that Kafka requires."""
    return ",".join(
        item if "://" in item else f"PLAINTEXT://{item}" for item in (part.strip() for part in text.split(","))
    )


def parse_host_port(text: str) -> tuple[str, int]:
    """Parse HOST:PORT of another machine. Raises ListenerError."""
    match = _ENTRY.match(text)
    host = _host(match) if match and not match["name"] else None
    if not match or not host or not 0 < int(match["port"]) < 65536:
        raise ListenerError(f"{text!r} is not of the form HOST:PORT, such as 127.0.0.1:8125")
    return host, int(match["port"])


def _addresses(key: str, items: Sequence[str]) -> list[_Address]:
    addresses: list[_Address] = []
    for item in items:
        match = _ENTRY.match(item)
        if not match or not match["name"] or int(match["port"]) > 65535:
            raise ListenerError(
                f"{key}: {item!r} is not of the form NAME://HOST:PORT, such as PLAINTEXT://127.0.0.1:9092"
            )
        address = _Address(match["name"].upper(), _host(match), int(match["port"]))
        if any(other.name == address.name for other in addresses):
            raise ListenerError(f"{key} has two listeners named {address.name}: each needs its own name")
        same_socket = [other for other in addresses if (other.host, other.port) == (address.host, address.port)]
        if key == "listeners" and address.port and same_socket:
            raise ListenerError(f"{key}: {same_socket[0].name} and {address.name} have the same address")
        addresses.append(address)
    return addresses


def _host(match: re.Match[str]) -> str:
    return match["v6"] or match["bare"] or match["host"] or ""


def _protocols_of(names: Sequence[str], protocol_map: str) -> dict[str, SecurityProtocol]:
    known = {}
    for item in protocol_map.split(",") if protocol_map else ():
        name, separator, protocol = item.strip().partition(":")
        if not separator:
            raise ListenerError(f"listener.security.protocol.map: {item!r} is not of the form NAME:PROTOCOL")
        known[name.strip().upper()] = protocol.strip().upper()
    protocols = {}
    for name in names:
        if name not in known:
            raise ListenerError(
                f"listener {name} has no security protocol: add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        try:
            protocols[name] = SecurityProtocol(known[name])
        except ValueError:
            possible = ", ".join(SecurityProtocol.__members__)
            raise ListenerError(
                f"listener {name} is configured as {known[name]}: it must be one of {possible}"
            ) from None
    return protocols


def _with_advertised(
    address: _Address, protocol: SecurityProtocol, advertised: _Address | None, host_name: Callable[[], str]
) -> ListenerConfig:
    if advertised is not None:
        return ListenerConfig(address.name, protocol, address.host, address.port, advertised.host, advertised.port)
    # Kafka asks the resolver for the canonical name, which may take seconds; a container is known by its short one.
    is_guess = address.host in _ANY_HOST
    host = host_name() if is_guess else address.host
    return ListenerConfig(address.name, protocol, address.host, address.port, host, address.port, is_guess)


def plain_address(host: str) -> str:
    """Return an address in the one form that rules and quotas use, however it is written: a socket of both families
    reports an IPv4 address as `::ffff:10.0.0.5`. A zone stays."""
    if ":" not in host:
        return host
    from ipaddress import ip_address  # a start on other hosts does not pay for it

    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = getattr(address, "ipv4_mapped", None)
    return str(address if mapped is None else mapped)


def is_loopback(host: str) -> bool:
    """Whether the host is loopback: by name (RFC 6761), as a number, with a zone, or as IPv4 mapped into IPv6."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    from ipaddress import ip_address  # a start on other hosts does not pay for it

    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
