"""`make bench WHAT=postgres`: arguments, progress on stderr, tables on stdout, and pages after a whole run.

ARGS='--rounds 5'          more than the three rounds of a whole run
ARGS=--quick               one round with a fiftieth of each workload: does it work here?
ARGS='--only produce-wait' these workloads (several with commas)
ARGS='--json FILE'         every number of every round
ARGS='--load 60'           instead: keep one broker busy for so many minutes, and look at the tables each tenth of it
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.harness import machine
from bench.harness.command import Arguments, Bar, progress_bar, save
from bench.harness.rounds import counted
from bench.page import ROOT, write_block
from bench.postgres import load
from bench.postgres.database import Database, started
from bench.postgres.report import text
from bench.postgres.run import Run
from bench.postgres.workloads import WORKLOADS
from oncelog.tools.demo.postgres_server import open_directory
from tools.interop import Unavailable

COMMAND = "make bench WHAT=postgres"
LOAD_COMMAND = f"{COMMAND}, load"
LOAD_PAGE = ROOT / "docs" / "operate" / "postgres.md"
_ROUNDS, _QUICK_SCALE = 3, 50


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = Arguments(COMMAND, __doc__, rounds=_ROUNDS)
    known.parser.add_argument("--only", metavar="WORKLOADS")
    known.parser.add_argument("--load", type=float, metavar="MINUTES")
    options = known.parse(arguments)
    options.is_whole = options.is_whole and not options.only
    options.only = known.chosen(WORKLOADS, options.only, "workload")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    if not sys.platform.startswith("linux"):
        print(f"{COMMAND} needs Linux: it reads processor time from /proc", file=sys.stderr)
        return 1
    try:
        with progress_bar() as bar, open_directory() as place, started(place) as database:
            return _measure(options, bar, place, database)
    except Unavailable as missing:
        print(missing, file=sys.stderr)
        return 1


def _measure(options: argparse.Namespace, bar: Bar, place: Path, database: Database) -> int:
    facts = [
        f"{machine.cores()} ({machine.model()}), load at the start {machine.load():.1f}; client, broker and "
        f"{database.version} share them",
        f"One append of 100 bytes and fdatasync on this disk: {machine.sync_time(place / 'probe')}",
    ]
    if options.load is not None:
        found = load.run(database, place, options.load * 60, bar.show)
        shown = load.text(found, [*facts, f"Written by `{COMMAND} ARGS='--load {options.load:g}'`"])
        print(shown)
        write_block(LOAD_COMMAND, shown, LOAD_PAGE)
        return 0
    scale = _QUICK_SCALE if options.quick else 1
    run = Run(database, place / "files", options.only, options.rounds, scale, bar.show)
    run.all()
    facts.append(f"{counted(options.rounds)}, one broker busy at a time; written by `{COMMAND}`")
    shown = text(run.samples, options.only, scale, facts)
    print(shown)
    rows = {
        key: {name: [asdict(each) for each in of] for name, of in found.items()} for key, found in run.samples.items()
    }
    save(options.json, {"facts": facts, "samples": rows})
    if options.is_whole:
        write_block(COMMAND, shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
