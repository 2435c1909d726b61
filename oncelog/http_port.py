"""The client's side of a broker's HTTP port: its address, its token, its certificate.

Owns: how a port is named, and what a request needs to be let in. Does not own: what is asked (`oncelog.faults`,
`oncelog.witness`). Invariant: the token is sent in a header and shown nowhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from oncelog.broker.config.admin_address import parse_http_address

if TYPE_CHECKING:
    from http.client import HTTPConnection

VARIABLE = "ONCELOG_METRICS"
"""The environment variable of the address; with _TOKEN it is that of the token."""


@dataclass(frozen=True, slots=True)
class HttpPort:
    """`address` is [https://]HOST:PORT; `ca_file` has the certificates (PEM) that the broker's is signed with, if the
    system does not know them."""

    address: str
    token: str | None = field(default=None, repr=False)
    ca_file: str | None = None

    def connection(self, timeout_s: float) -> "HTTPConnection":
        """Return a connection that is not connected yet. Raises ValueError for the address, OSError for the file."""
        # Milliseconds, for which a test that injects no fault need not wait.
        from http.client import HTTPConnection, HTTPSConnection

        try:
            address = parse_http_address(self.address)
        except ValueError as error:
            raise ValueError(f"{self.address!r} {error}") from error
        if not address.has_tls:
            return HTTPConnection(address.host, address.port, timeout=timeout_s)
        import ssl

        context = ssl.create_default_context(cafile=self.ca_file)
        return HTTPSConnection(address.host, address.port, timeout=timeout_s, context=context)

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def given_token(environ: Mapping[str, str], file: str | None) -> str | None:
    """Return the token from the file, else from the environment. Raises OSError, UnicodeDecodeError."""
    if file:
        return Path(file).read_text(encoding="ascii").strip()
    return environ.get(f"{VARIABLE}_TOKEN") or None
