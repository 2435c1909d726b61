"""`oncelog witness`: what a broker has seen its clients do wrong.

Owns: the option, the table. Does not own: the request (`oncelog.witness`), what is a mistake (`broker.witness`). The
report comes over HTTP, for Kafka's protocol has no request for it.
Exit codes: 0 nothing is wrong ("look" is advice), 1 something is, 2 there is no report.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from oncelog.tools.asking import EXIT_FAILED, EXIT_FOUND, Answer, show
from oncelog.tools.metrics_port import metrics_port_options, token_or_fail
from oncelog.tools.terminal import Row, fail, say_json

if TYPE_CHECKING:
    from oncelog.witness import Finding, Report

DEFAULT_ADDRESS = "127.0.0.1:9404"
"""The default address, as the examples of docs/operate/metrics.md have it."""


@click.command()
@click.option(
    "-m",
    "--metrics",
    "address",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    show_default=True,
    envvar="ONCELOG_METRICS",
    help="Where the broker serves HTTP: its oncelog.metrics.listen, or oncelog.admin.listen (ONCELOG_METRICS).",
)
@metrics_port_options
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def witness(address: str, token_file: str | None, ca_file: str | None, timeout_s: float, as_json: bool) -> None:
    """Show mistakes of clients that the broker has seen since its start: what, by whom, and what to change.

    The broker watches with oncelog.witness.enable=true. Exits with 1 if something is wrong.
    """
    from oncelog.witness import WitnessUnavailable, ask_witness

    try:
        report = ask_witness(address, timeout_s, token=token_or_fail(token_file), ca_file=ca_file)
    except WitnessUnavailable as error:
        fail(str(error), EXIT_FAILED)
    exit_code = EXIT_FOUND if any(each.severity == "wrong" for each in report.findings) else 0
    if as_json:
        say_json(report.as_json())
        raise SystemExit(exit_code)
    hint = _hint(report)
    nothing = f"No client does anything wrong. {hint}".rstrip()
    show(Answer([_row(each) for each in report.findings], nothing, hint, exit_code, ends_in_prose=True), as_json=False)


def _row(finding: "Finding") -> Row:
    about = {"topic": finding.topic, "group": finding.group, "id": finding.transactional_id}
    software = f"{finding.software_name} {finding.software_version}".strip() or "a client"
    seen = f"{software} at {finding.address} {finding.seen}, since {_time(finding.first_ms)}."
    return {
        "severity": finding.severity,
        "client": finding.client_id or None,
        "about": ", ".join(f"{what} {name}" for what, name in about.items() if name),
        "times": finding.count,
        "last": _time(finding.last_ms),
        "what, and what to change": f"{finding.kind}: {seen} {finding.change} {finding.docs}",
    }


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _hint(report: "Report") -> str:
    forgotten = [f"{count} {name.replace('_', ' ')}" for name, count in report.forgotten.items() if count]
    return f"The broker has forgotten {', '.join(forgotten)}: there may be more." if forgotten else ""
