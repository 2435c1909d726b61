"""`make sim SEEDS=200 FIRST=0`: lives of the log, its compaction, the clock, the lease and the whole broker,
one for each seed.

Each life is its seed's alone, so worker processes share them out, one for each core; what is printed comes in the
order of the seeds. The first life that breaks a rule ends the run, with the command that repeats it.

The tests hold a few lives of each world to what must have happened in them; `.ci/run` lives the seeds until 19.
"""

import argparse
import logging
import signal
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict
from functools import partial

from rich.progress import track

from oncelog.broker.assembly.broker import StartError
from tests.history.auditor import HistoryError
from tests.simulation.broker_world import BrokerWorld
from tests.simulation.clock_world import ClockWorld
from tests.simulation.lease_world import LeaseWorld
from tests.simulation.log_auditor import AuditError
from tests.simulation.log_mixes import BACKUPS, COMPACTION, FRAMES
from tests.simulation.log_world import LogWorld
from tests.simulation.outbox_world import OutboxWorld
from tests.simulation.pair_world import PairWorld
from tests.simulation.restored_pair_world import RestoredPairWorld
from tests.simulation.restored_world import RestoredWorld
from tests.simulation.share_world import ShareWorld
from tests.simulation.shared_world import SharedWorld
from tests.simulation.streams_world import StreamsWorld
from tests.simulation.tables_world import TablesWorld
from tests.support.cores import core_count

LOG_STEPS = 150
CLOCK_TURNS = 300
COPY_CHANCE = 0.5
LEASE_MS = 20_000
WORLDS = {
    "compaction": lambda seed: asdict(LogWorld(seed, COMPACTION).run(LOG_STEPS)),
    "frames": lambda seed: asdict(LogWorld(seed, FRAMES).run(LOG_STEPS)),
    "log": lambda seed: asdict(LogWorld(seed).run(LOG_STEPS)),
    "log-copies": lambda seed: asdict(LogWorld(seed, copy_chance=COPY_CHANCE).run(LOG_STEPS)),
    "log-backups": lambda seed: asdict(LogWorld(seed, BACKUPS).run(LOG_STEPS)),
    "broker": lambda seed: asdict(BrokerWorld(seed).run()),
    "broker-backups": lambda seed: asdict(BrokerWorld(seed, from_backups=True).run()),
    "share": lambda seed: dict(ShareWorld(seed).run()),
    "streams": lambda seed: dict(StreamsWorld(seed).run()),
    "shared": lambda seed: asdict(SharedWorld(seed).run()),
    "restored": lambda seed: asdict(RestoredWorld(seed).run()),
    "tables": lambda seed: asdict(TablesWorld(seed).run()),
    "outbox": lambda seed: asdict(OutboxWorld(seed).run()),
    "pair": lambda seed: asdict(PairWorld(seed).run()),
    "restored-pair": lambda seed: asdict(RestoredPairWorld(seed).run()),
    "lease": lambda seed: dict(LeaseWorld(seed).run(LEASE_MS)),
    "clock": lambda seed: dict(ClockWorld(seed).run(CLOCK_TURNS)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--world", choices=sorted(WORLDS), action="append", help="which; by default all")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=core_count(), help="how many processes; by default one a core")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers, initializer=be_quiet) as workers:
        for world in options.world or sorted(WORLDS, reverse=True):
            if not live(workers, world, range(options.first, options.first + options.seeds)):
                return 1
    return 0


def be_quiet() -> None:
    """Leave Ctrl-C to the first process, which ends the workers, and log nothing of what clients put up with."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("oncelog.client").addHandler(logging.NullHandler())


def live(workers: Executor, world: str, seeds: range) -> bool:
    total: Counter[str] = Counter()
    started = time.monotonic()
    # Closed, it takes back the lives that have not begun.
    with closing(workers.map(partial(life, world), seeds)) as outcomes:
        lives = zip(seeds, outcomes, strict=True)
        for seed, outcome in track(lives, f"lives of the {world}", total=len(seeds), transient=True):
            if isinstance(outcome, str):
                again = f"python -m tests.simulation --world {world} --first {seed} --seeds 1"
                print(f"{world}, seed {seed}: {outcome}\nagain: {again}", file=sys.stderr)
                return False
            total.update(outcome)
    stops = (total["stops"] + total["power_cuts"]) / (time.monotonic() - started) * 60
    text = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in total.items())
    print(f"{world}: {len(seeds)} lives, {text}; {stops:,.0f} stops a minute; every promise held", flush=True)
    return True


def life(world: str, seed: int) -> dict[str, int] | str:
    """Run one seed: return its counts, or the text of the error that ended it (not every error can be pickled)."""
    try:
        return WORLDS[world](seed)
    except (AuditError, HistoryError, StartError) as error:
        return str(error)
    except BaseException:  # PowerCut is one
        return traceback.format_exc()


if __name__ == "__main__":
    sys.exit(main())
