"""Does a host stand for the machine that one asks on?

Owns: the verdict on an address or a name, in every form that it may come in. Nothing is looked up.
"""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """By name (RFC 6761), as a number, with a zone, and as IPv4 mapped into IPv6."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
