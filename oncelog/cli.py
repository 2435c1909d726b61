"""The `oncelog` command: the broker's own commands and the demonstrations.

Owns: the list of commands. Does not own: what they do; each is imported when it is called.
"""

import click

from broker.cli import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="oncelog", prog_name="oncelog")
def main() -> None:
    """A Kafka-compatible broker, complete in exactly-once semantics."""


main.add_command(serve)


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
