"""The `oncelog` command: the broker's own commands and the demonstrations.

Owns: the list of commands. Does not own: what they do; each is imported when it is called.
"""

import click

from broker.cli import serve
from oncelog.log_cli import log
from oncelog.txn_cli import txn


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="oncelog", prog_name="oncelog")
def main() -> None:
    """A Kafka-compatible broker, complete in exactly-once semantics."""


main.add_command(serve)
main.add_command(log)
main.add_command(txn)


@main.command()
@click.option("--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True)
@click.option("--timeout", "timeout_s", metavar="SECONDS", type=float, default=3.0, show_default=True)
def health(bootstrap: str, timeout_s: float) -> None:
    """Exit with 0 if a broker answers there, with 1 if not."""
    from oncelog.health import NotHealthy, check_health

    host, _, port = bootstrap.rpartition(":")
    if not port.isdecimal():
        raise click.BadParameter(f"{bootstrap!r} is not of the form HOST:PORT", param_hint="--bootstrap")
    try:
        api_count = check_health(host.strip("[]") or "127.0.0.1", int(port), timeout_s)
    except NotHealthy as error:
        click.echo(f"oncelog: {error}", err=True)
        raise SystemExit(1) from None
    click.echo(f"{bootstrap} answers: {api_count} APIs")


@main.group()
def demo() -> None:
    """See transactions work."""


@demo.command()
@click.option("--bootstrap", metavar="HOST:PORT", help="A running broker. Without it, one is started for the show.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, for programs.")
def isolation(bootstrap: str | None, as_json: bool) -> None:
    """An aborted transaction, a plain write and a committed one, as both kinds of readers see them."""
    from oncelog import demo_isolation

    raise SystemExit(demo_isolation.run(bootstrap=bootstrap, as_json=as_json))
