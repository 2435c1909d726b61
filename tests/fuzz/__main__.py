"""`python -m tests.fuzz`: looks for bytes that break the broker, for as long as it is given (`make fuzz`).

Everything found is printed with its seed, and written to `.fuzz/` in the form of `tests/fuzz/found`.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.costliest import climb
from tests.fuzz.search import Tally, run
from tests.fuzz.storm import storm

FOLDER = Path(".fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Look for bytes that break the broker.")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, help="begin with this one (default: the time)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else int(time.time())
    print(f"fuzz: {arguments.seconds:g} s from seed {seed}: in memory, for costs, the daemon", flush=True)
    broken = _search(seed, arguments.seconds * 0.5)
    broken += _climb(seed, arguments.seconds * 0.25) + _storm(seed, arguments.seconds * 0.25)
    print(f"fuzz: {broken} found" if broken else "fuzz: nothing found")
    return 1 if broken else 0


def _search(seed: int, seconds: float) -> int:
    tally = Tally()
    until = time.monotonic() + seconds
    broken: set[str] = set()
    while time.monotonic() < until:
        found = run(seed, tally)
        if found is not None and found.signature not in broken:
            broken.add(found.signature)
            FOLDER.mkdir(exist_ok=True)
            path = FOLDER / f"seed-{seed}.json"
            path.write_text(found.as_json(), encoding="utf-8")
            print(f"\nfuzz: seed {seed} breaks the broker with {len(found.actions)} actions ({path}):\n{found.what}")
            for action in found.actions:
                print("  ", *(str(part)[:2_000] for part in action))
        seed += 1
    _print_tally(tally)
    return len(broken)


def _print_tally(tally: Tally) -> None:
    print(f"fuzz: {tally.runs} runs, {tally.frames} frames, {tally.answers} answers")
    for what, (cost, size, text) in (("slowest turn, s", tally.slowest), ("largest turn, bytes", tally.largest)):
        print(f"fuzz: {what}: {cost:.3g} for {size} bytes: {text[:160]}")


def _climb(seed: int, seconds: float) -> int:
    found = climb(seed, seconds=seconds)
    print(f"fuzz: {found.frames} frames of seed {seed}, the costliest for its bytes is {found.costliest}")
    if found.problem is not None:
        print(f"fuzz: seed {seed} costs too much: {found.problem}")
    return found.problem is not None


def _storm(seed: int, seconds: float) -> int:
    with tempfile.TemporaryDirectory(prefix="oncelog-fuzz-") as directory:
        try:
            print(f"fuzz: {storm(Path(directory), seed, seconds)}")
        except Exception as error:
            print(f"fuzz: the storm of seed {seed} broke the daemon: {type(error).__name__}: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
