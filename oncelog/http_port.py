"""The client's side of a broker's HTTP port: its address, its token, its certificate.

Owns: how a port is named, what a request needs to be let in, and what is said where none answers. Does not own: what is
asked (`oncelog.faults`, `oncelog.witness`, `oncelog.share_groups`). Invariant: the token is sent in a header and shown
nowhere.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncelog.broker.config.admin_address import parse_http_address

if TYPE_CHECKING:
    from http.client import HTTPConnection

VARIABLE = "ONCELOG_METRICS"
"""The environment variable of the address; with _TOKEN it is that of the token."""


class PortUnavailable(Exception):
    """Raised if a port does not answer what it is asked; the message says what to do."""


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

    def get(self, path: str, timeout_s: float, *, what: str, settings: str = "") -> Any:
        """Return the JSON at a path. `what` it is, and the other `settings` of a broker that serves it, are for the
        message. Raises PortUnavailable."""
        import ssl
        from http.client import HTTPException

        address = self.address
        try:
            connection = self.connection(timeout_s)
        except ValueError as error:
            raise PortUnavailable(str(error)) from error
        except OSError as error:
            raise PortUnavailable(f"{self.ca_file}: {error.strerror or error}") from error
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            raise PortUnavailable(
                f"{address}: the certificate is not accepted: {error.verify_message}; --metrics-ca-file names a file "
                "with the one that it is signed with"
            ) from error
        except OSError as error:
            raise PortUnavailable(
                f"{address} does not respond: {error.strerror or error}; start the broker with --override "
                f"oncelog.metrics.listen={address}{settings}"
            ) from error
        try:
            connection.request("GET", path, headers=self.headers)
            response = connection.getresponse()
            values = json.loads(response.read())
            if response.status == 200:
                return values
            raise PortUnavailable(f"{address}: {values['error']}")
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
            raise self.serves_no(what) from error
        finally:
            connection.close()

    def serves_no(self, what: str) -> PortUnavailable:
        """Return the error for a port that answers something else."""
        return PortUnavailable(
            f"{self.address} does not serve {what}; name the broker's oncelog.metrics.listen, "
            "which is not where Kafka's clients connect"
        )

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def given_token(environ: Mapping[str, str], file: str | None) -> str | None:
    """Return the token from the file, else from the environment. Raises OSError, UnicodeDecodeError."""
    if file:
        return Path(file).read_text(encoding="ascii").strip()
    return environ.get(f"{VARIABLE}_TOKEN") or None
