"""The addresses of the HTTP ports, `oncelog.admin.listen` and `oncelog.metrics.listen`, and the URL of
`oncelog.otlp.endpoint`.

Owns: their syntax, which hosts count as this machine, and which ports must have a token:

| | on loopback | beyond |
|---|---|---|
| admin | with an authorizer | always |
| metrics | no | with an authorizer |

A client of the admin port can stop the broker and sees every transactional id; one of the metrics port sees names of
topics and groups. On loopback without an authorizer both are as open as the listeners of the broker are by default.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

TOKEN_FILES = {"admin": "oncelog.admin.token.file", "metrics": "oncelog.metrics.token.file"}
"""The settings that name the token files, by port."""
_ADDRESS = re.compile(r"(?:(?P<scheme>https?)://)?(?P<host>[^/@?#\s]*):(?P<port>[0-9]{1,5})\Z")


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Port 0 lets the system choose; an empty host is every address of the machine."""

    host: str
    port: int
    has_tls: bool

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_admin_host(self.bound_host)

    @property
    def bound_host(self) -> str:
        """The host to listen on: one address, where a name may have several."""
        return "127.0.0.1" if self.host == "localhost" else self.host

    def __str__(self) -> str:
        return format_host_port(self.host, self.port)


def parse_http_address(text: str) -> HttpAddress:
    """Parse HOST:PORT or https://HOST:PORT. Raises ValueError."""
    match = _ADDRESS.match(text.strip())
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be HOST:PORT or https://HOST:PORT, such as 127.0.0.1:9644")
    host = match["host"].removeprefix("[").removesuffix("]")
    return HttpAddress(host, int(match["port"]), match["scheme"] == "https")


def format_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_admin_host(host: str) -> bool:
    """Whether the host is loopback as a plain number. Other spellings are rejected: a web page may have a name under
    `localhost`, and each further spelling is another way around this check."""
    from ipaddress import ip_address  # a start without this address does not pay for it

    from oncelog.broker.config.listeners import is_loopback

    try:
        address = ip_address(host)
    except ValueError:
        return False
    return is_loopback(host) and getattr(address, "ipv4_mapped", None) is None


def check_tokens(get: Callable[[str], str | None]) -> None:
    """Raise ValueError, with what to write, if a port lacks the token that it must have. `get` returns a setting."""
    has_authorizer = bool(get("authorizer.class.name"))
    for name, key in TOKEN_FILES.items():
        text = get(f"oncelog.{name}.listen")
        if not text or get(key):
            continue
        is_local = parse_http_address(text).is_local
        if (has_authorizer or not is_local) if name == "admin" else (has_authorizer and not is_local):
            why = "there is an authorizer" if is_local else "other machines can reach that"
            raise ValueError(
                f"oncelog.{name}.listen is {text}, and {why}: set {key} to a file with a token, which only "
                "this user may read (umask 077; openssl rand -hex 32 > FILE)"
                f"{'' if is_local else ', or listen on 127.0.0.1'}"
            )


def check_otlp_endpoint(text: str) -> str:
    """Raises ValueError."""
    scheme, separator, rest = text.strip().partition("://")
    if scheme not in ("http", "https") or not separator or not rest.partition("/")[0]:
        raise ValueError("must be a URL, such as http://localhost:4318/v1/metrics")
    return text.strip()
