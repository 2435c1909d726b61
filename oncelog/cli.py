"""The `oncelog` command: the broker's own commands and the demonstrations.

Owns: the list of commands. Does not own: what they do; each is imported when it is called.
"""

from importlib import import_module

import click

from oncelog.broker.cli import serve

_TOOLS = {"log": "oncelog.tools.log.cli", "spark": "oncelog.tools.spark.cli", "txn": "oncelog.tools.txn.cli"}
"""Command groups, each in a module that `serve` should not have to import."""


class _Commands(click.Group):
    """click's way to load commands lazily: a group that resolves their names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_TOOLS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _TOOLS:
            found: click.Command = getattr(import_module(_TOOLS[cmd_name]), cmd_name)
            return found
        return super().get_command(ctx, cmd_name)


def _show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked:
        return
    from importlib.metadata import version

    from oncelog.broker.log import partition_log
    from oncelog.protocol import is_compiled
    from oncelog.tools.terminal import say

    kind = "compiled" if is_compiled(partition_log) else "pure Python"
    say(f"oncelog, version {version('oncelog')}, {kind}")
    context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and whether the broker is compiled.",
)
def main() -> None:
    """A Kafka-compatible broker, complete in exactly-once semantics."""


main.add_command(serve)


@main.command()
@click.option("--bootstrap", metavar="HOST:PORT", default="127.0.0.1:9092", show_default=True)
@click.option("--timeout", "timeout_s", metavar="SECONDS", type=float, default=3.0, show_default=True)
def health(bootstrap: str, timeout_s: float) -> None:
    """Exit with 0 if a broker responds there, with 1 if not."""
    from oncelog.health import NotHealthy, check_health
    from oncelog.tools.terminal import fail, say

    host, _, port = bootstrap.rpartition(":")
    if not port.isdecimal():
        raise click.BadParameter(f"{bootstrap!r} is not of the form HOST:PORT", param_hint="--bootstrap")
    try:
        api_count = check_health(host.strip("[]") or "127.0.0.1", int(port), timeout_s)
    except NotHealthy as error:
        fail(str(error), 1)
    say(f"{bootstrap} responds: {api_count} APIs")


@main.group()
def demo() -> None:
    """Watch transactions at work."""


@demo.command()
@click.option("--bootstrap", metavar="HOST:PORT", help="A running broker. Without it, a temporary one is started.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def isolation(bootstrap: str | None, as_json: bool) -> None:
    """An aborted transaction, a plain write and a committed one, as readers of both isolation levels see them."""
    from oncelog.tools.demo import isolation as demo_isolation

    raise SystemExit(demo_isolation.run(bootstrap=bootstrap, as_json=as_json))


@demo.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Where the faults happen.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def delivery(seed: int, as_json: bool) -> None:
    """At most once, at least once, exactly once: the same work under the same faults, and what was lost and doubled."""
    from oncelog.tools.demo import delivery as demo_delivery

    raise SystemExit(demo_delivery.run(seed=seed, as_json=as_json))


@demo.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--step", "waits", is_flag=True, help="Wait for Enter after each step.")
def crash(as_json: bool, waits: bool) -> None:
    """A broker killed in the middle of a commit, just before and just after the point of no return."""
    from oncelog.tools.demo import crash as demo_crash

    raise SystemExit(demo_crash.run(as_json=as_json, waits=waits))
