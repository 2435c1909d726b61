"""What a broker has seen its clients do wrong, from Python: `ask_witness` asks the address of its HTTP listener.

Owns: one HTTP request. Does not own: what is a mistake (`broker.witness`, whose values are re-exported).

    for finding in ask_witness("127.0.0.1:9404").findings:
        print(finding.severity, finding.client_id, finding.seen, finding.change)
"""

from oncelog.broker.witness.findings import Finding, Report
from oncelog.http_port import HttpPort, PortUnavailable

__all__ = ["Finding", "Report", "WitnessUnavailable", "ask_witness"]
_WHAT = "the witness"


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
        return _report(port, timeout_s)
    except PortUnavailable as error:
        raise WitnessUnavailable(str(error)) from error


def _report(port: HttpPort, timeout_s: float) -> Report:
    """Raises PortUnavailable."""
    values = port.get("/witness", timeout_s, what=_WHAT, settings=" --override oncelog.witness.enable=true")
    try:
        return Report.from_json(values)
    except (KeyError, TypeError) as error:
        raise port.serves_no(_WHAT) from error
