"""What a broker has seen its clients do wrong, from Python: `ask_witness` asks the address of its HTTP listener.

Owns: one HTTP request. Does not own: what is a mistake (`broker.witness`, whose values are re-exported).

    for finding in ask_witness("127.0.0.1:9404").findings:
        print(finding.severity, finding.client_id, finding.seen, finding.change)
"""

import json
import ssl
from http.client import HTTPException

from oncelog.broker.witness.findings import Finding, Report
from oncelog.http_port import HttpPort

__all__ = ["Finding", "Report", "WitnessUnavailable", "ask_witness"]


class WitnessUnavailable(Exception):
    """Raised if there is no report at this address; the message says what to do."""


def ask_witness(
    address: str, timeout_s: float = 30.0, *, token: str | None = None, ca_file: str | None = None
) -> Report:
    """Return the report of a broker. `address` is HOST:PORT, or https://HOST:PORT, of its `oncelog.metrics.listen` or
    `oncelog.admin.listen`; `token` the one in its `oncelog.metrics.token.file` or `oncelog.admin.token.file`, `ca_file`
    has the certificates (PEM) that the broker's is signed with. Raises WitnessUnavailable."""
    port = HttpPort(address, token, ca_file)
    try:
        connection = port.connection(timeout_s)
    except ValueError as error:
        raise WitnessUnavailable(str(error)) from error
    except OSError as error:
        raise WitnessUnavailable(f"{ca_file}: {error.strerror or error}") from error
    try:
        connection.connect()
    except ssl.SSLCertVerificationError as error:
        raise WitnessUnavailable(
            f"{address}: the certificate is not accepted: {error.verify_message}; --metrics-ca-file names a file with "
            "the one that it is signed with"
        ) from error
    except OSError as error:
        raise WitnessUnavailable(
            f"{address} does not respond: {error.strerror or error}; start the broker with --override "
            f"oncelog.metrics.listen={address} --override oncelog.witness.enable=true"
        ) from error
    try:
        connection.request("GET", "/witness", headers=port.headers)
        response = connection.getresponse()
        values = json.loads(response.read())
        if response.status == 200:
            return Report.from_json(values)
        raise WitnessUnavailable(f"{address}: {values['error']}")
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise WitnessUnavailable(
            f"{address} does not serve the witness; name the broker's oncelog.metrics.listen, "
            "which is not where Kafka's clients connect"
        ) from error
    finally:
        connection.close()
