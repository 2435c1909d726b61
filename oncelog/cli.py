"""The `oncelog` command: a noun, then a verb.

Owns: the table of commands. Does not own: what they do; each module is imported when its command is called.
"""

import sys
from importlib import import_module

import click

_COMMANDS = {
    "acl": ("oncelog.tools.acl:acl", "Rights: list, add and remove access control rules."),
    "adopt": ("oncelog.tools.adopt.cli:adopt", "Make a data directory of a copy of Apache Kafka's."),
    "backup": ("oncelog.tools.backup.cli:backup", "Copy the data directory of a broker while it runs."),
    "cluster": ("oncelog.tools.cluster:cluster", "Nodes, data directories, features, which node leads."),
    "completion": ("oncelog.tools.completion:completion", "Print the shell's completion of this command."),
    "console": ("oncelog.console.cli:console", "Show a cluster and its transactions in a browser."),
    "config": ("oncelog.tools.config:config", "Settings of topics, groups and brokers."),
    "copy": ("oncelog.tools.copy.cli:copy", "Copy topics and group offsets to another cluster, exactly once."),
    "demo": ("oncelog.tools.demo.cli:demo", "Watch transactions at work."),
    "doctor": ("oncelog.tools.doctor:doctor", "Look for the usual troubles."),
    "graduate": ("oncelog.tools.graduate.cli:graduate", "Turn a data directory into one of Apache Kafka."),
    "group": ("oncelog.tools.group:group", "Groups: list, describe, lag, offsets, reset, delete."),
    "health": ("oncelog.tools.health:health", "Exit with 0 if a broker responds, with 1 if not."),
    "log": ("oncelog.tools.log.cli:log", "Inspect, check and repair the files of a broker."),
    "outbox": ("oncelog.tools.outbox.cli:outbox", "Relay from PostgreSQL to Kafka, each event exactly once."),
    "quota": ("oncelog.tools.quota:quota", "Quotas of users, client ids and addresses: list, set, remove."),
    "record": ("oncelog.tools.record.cli:record", "Produce, consume and delete records, transactions included."),
    "restore": ("oncelog.tools.backup.cli:restore", "Bring a backup back into an empty data directory."),
    "serve": ("oncelog.broker.daemon.cli:serve", "Run the broker until SIGTERM or SIGINT."),
    "service": ("oncelog.tools.service:service", "The broker as a service of systemd: write a hardened unit."),
    "spark": ("oncelog.tools.spark.cli:spark", "Compare what a Spark query's sink remembers with its checkpoint."),
    "token": ("oncelog.tools.token:token", "Delegation tokens: create, list, renew, expire."),
    "topic": ("oncelog.tools.topic:topic", "Create, list, describe, alter and delete topics."),
    "txn": ("oncelog.tools.txn.cli:txn", "Inspect transactions, follow them, and end hanging ones."),
    "user": ("oncelog.tools.user:user", "Users who log in by SCRAM: add, list, remove."),
    "witness": ("oncelog.tools.witness:witness", "Mistakes of clients that a broker has seen."),
}
"""The module of each command, and its line in `oncelog --help`, which imports none of them."""


class _Commands(click.Group):
    """click's way to load commands lazily: a group that resolves their names."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in _COMMANDS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from oncelog.tools.asking import did_you_mean

        raise click.UsageError(f"No such command {name!r}{did_you_mean(name, _COMMANDS)}.", ctx)

    def invoke(self, ctx: click.Context) -> object:
        if sys.stdout is None:  # found out before anything is changed
            from oncelog.tools.terminal import EXIT_NOT_WRITTEN, fail

            fail("standard output is closed: send it to a file, or to /dev/null", EXIT_NOT_WRITTEN)
        return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in sorted(_COMMANDS.items())])


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
