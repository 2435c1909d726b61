"""`make sim SEEDS=200 FIRST=0`: simulated lives of the log, one for each seed; the first that fails ends it."""

import argparse
import sys
import time

from rich.progress import track

from tests.simulation.log_auditor import AuditError
from tests.simulation.log_world import Counts, LogWorld


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=150, help="steps of each life")
    options = parser.parse_args()
    total = Counts()
    started = time.monotonic()
    for seed in track(range(options.first, options.first + options.seeds), "lives of the log", transient=True):
        try:
            total = total.plus(LogWorld(seed).run(options.steps))
        except AuditError as error:
            again = f"python -m tests.simulation --first {seed} --seeds 1 --steps {options.steps}"
            print(f"seed {seed}: {error}\nagain: {again}", file=sys.stderr)
            return 1
    minutes = (time.monotonic() - started) / 60
    stops = total.stops + total.power_cuts
    print(f"{options.seeds} lives: {total.text()}; {stops / minutes:,.0f} stops a minute; every promise held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
