"""The text of `oncelog.admin.listen`: HOST:PORT on this very machine.

Owns: which hosts count as this machine. Who reaches the address can kill the broker, so there is no other.
"""


def parse_admin_address(text: str) -> tuple[str, int]:
    """Host, as a number, and port; 0 lets the system choose. Raises ValueError."""
    host, separator, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError("write HOST:PORT, such as 127.0.0.1:9644")
    if host == "localhost":
        host = "127.0.0.1"
    if not is_admin_host(host):
        raise ValueError("it can stop the broker, so it listens on this machine alone: 127.0.0.1, [::1] or localhost")
    return host, int(port)


def is_admin_host(host: str) -> bool:
    """Loopback as a plain number. Other forms of it are refused: a web page may have a name under `localhost`, and one
    form less is one way less around this check."""
    from ipaddress import ip_address  # a start without this address does not pay for it

    from oncelog.broker.config.listeners import is_loopback

    try:
        address = ip_address(host)
    except ValueError:
        return False
    return is_loopback(host) and getattr(address, "ipv4_mapped", None) is None
