"""The values of `oncelog.admin.listen`, HOST:PORT on this machine, of `oncelog.metrics.listen`, on any, and the URL of
`oncelog.otlp.endpoint`.

Owns: which hosts count as this machine. A client of the first can kill the broker, so no other host is allowed.
"""


def parse_listen_address(text: str) -> tuple[str, int]:
    """Host and port; 0 lets the system choose. Raises ValueError."""
    host, separator, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be HOST:PORT, such as 127.0.0.1:9644")
    return host, int(port)


def parse_admin_address(text: str) -> tuple[str, int]:
    """Host, as a number, and port; 0 lets the system choose. Raises ValueError."""
    host, port = parse_listen_address(text)
    if host == "localhost":
        host = "127.0.0.1"
    if not is_admin_host(host):
        raise ValueError("it can stop the broker, so it must be on this machine: 127.0.0.1, [::1] or localhost")
    return host, port


def is_admin_host(host: str) -> bool:
    """Loopback as a plain number. Other spellings are rejected: a web page may have a name under `localhost`, and each
    further spelling is another way around this check."""
    from ipaddress import ip_address  # a start without this address does not pay for it

    from oncelog.broker.config.listeners import is_loopback

    try:
        address = ip_address(host)
    except ValueError:
        return False
    return is_loopback(host) and getattr(address, "ipv4_mapped", None) is None


def check_otlp_endpoint(text: str) -> str:
    """Raises ValueError."""
    scheme, separator, rest = text.strip().partition("://")
    if scheme not in ("http", "https") or not separator or not rest.partition("/")[0]:
        raise ValueError("must be a URL, such as http://localhost:4318/v1/metrics")
    return text.strip()
