"""`make sim SEEDS=200 FIRST=0`: lives of the log, its compaction, the clock and the whole broker, one for each seed.

The first life that breaks a rule ends the run, with the command that repeats it.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import asdict

from rich.progress import track

from broker.assembly import StartError
from tests.history.auditor import HistoryError
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.clock_world import ClockWorld
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_world import COMPACTION, LogWorld

LOG_STEPS = 150
CLOCK_TURNS = 300
WORLDS = {
    "compaction": lambda seed: asdict(LogWorld(seed, COMPACTION).run(LOG_STEPS)),
    "log": lambda seed: asdict(LogWorld(seed).run(LOG_STEPS)),
    "broker": lambda seed: asdict(BrokerWorld(seed).run()),
    "clock": lambda seed: dict(ClockWorld(seed).run(CLOCK_TURNS)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--world", choices=sorted(WORLDS), action="append", help="which; by default all")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    for world in options.world or sorted(WORLDS, reverse=True):
        if not live(world, options.first, options.seeds):
            return 1
    return 0


def live(world: str, first: int, seeds: int) -> bool:
    total: Counter[str] = Counter()
    started = time.monotonic()
    for seed in track(range(first, first + seeds), f"lives of the {world}", transient=True):
        try:
            total.update(WORLDS[world](seed))
        except (AuditError, HistoryError, StartError) as error:
            again = f"python -m tests.simulation --world {world} --first {seed} --seeds 1"
            print(f"{world}, seed {seed}: {error}\nagain: {again}", file=sys.stderr)
            return False
    stops = (total["stops"] + total["power_cuts"]) / (time.monotonic() - started) * 60
    text = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in total.items())
    print(f"{world}: {seeds} lives, {text}; {stops:,.0f} stops a minute; every promise held")
    return True


if __name__ == "__main__":
    sys.exit(main())
