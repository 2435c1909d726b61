"""What a broker has seen its clients do wrong, from Python: `ask_witness` asks the address of its HTTP listener.

Owns: one HTTP request. Does not own: what is a mistake (`broker.witness`, whose values are re-exported).

    for finding in ask_witness("127.0.0.1:9404").findings:
        print(finding.severity, finding.client_id, finding.seen, finding.change)
"""

import json
from http.client import HTTPConnection, HTTPException

from oncelog.broker.config.admin_address import parse_listen_address
from oncelog.broker.witness.findings import Finding, Report

__all__ = ["Finding", "Report", "WitnessUnavailable", "ask_witness"]


class WitnessUnavailable(Exception):
    """There is no report at this address; the message says what to do."""


def ask_witness(address: str, timeout_s: float = 30.0) -> Report:
    """`address` is HOST:PORT of the broker's `oncelog.metrics.listen` or `oncelog.admin.listen`. Raises
    WitnessUnavailable."""
    try:
        connection = HTTPConnection(*parse_listen_address(address), timeout=timeout_s)
    except ValueError as error:
        raise WitnessUnavailable(f"{address!r} {error}") from error
    try:
        connection.connect()
    except OSError as error:
        raise WitnessUnavailable(
            f"{address} does not respond: {error.strerror or error}; start the broker with --override "
            f"oncelog.metrics.listen={address} --override oncelog.witness.enable=true"
        ) from error
    try:
        connection.request("GET", "/witness")
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
