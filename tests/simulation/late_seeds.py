"""`python -m tests.simulation.late_seeds`: find for each planted fault the first seed whose life shows it, and write
`late_seeds.json`, by which the tests try that seed before others.

A change of a world moves what its seeds do. That makes no test wrong, only slow: a fault that its seed no longer
shows is looked for in every life before the one that does.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.progress import track

from tests.simulation.log_faults import LATE_SEEDS, planted, seeds_for
from tests.simulation.pair_faults import FOUND_BY
from tests.simulation.test_plants import BEDS
from tests.support.cores import core_count


def seed_of(world: str, place: int) -> tuple[str, int | None]:
    """Return the names of world and plant, and the seed that shows it, or None if none does."""
    bed = BEDS[world]
    plant = bed.plants[place]
    with planted(plant):
        for seed in seeds_for(world, plant, bed.seed_count):
            try:
                bed.live(seed)
            except bed.caught as caught:
                if not str(caught).startswith(FOUND_BY.get(plant, "")):
                    continue
                return f"{world}-{plant.__name__}", seed
            except Exception as error:  # another seed may show it as an auditor says it
                print(f"{world}-{plant.__name__}: {error!r} in the life of seed {seed}")
    return f"{world}-{plant.__name__}", None


def main() -> None:
    plants = [(world, place) for world, bed in BEDS.items() for place in range(len(bed.plants))]
    with ProcessPoolExecutor(core_count()) as processes:
        found = dict(track(processes.map(seed_of, *zip(*plants, strict=True)), "plants", total=len(plants)))
    for name, seed in found.items():
        if seed is None:
            print(f"{name}: shown by none of its seeds")
    late = {name: seed for name, seed in sorted((LATE_SEEDS | found).items()) if seed}
    Path(__file__).with_suffix(".json").write_text(json.dumps(late, indent=2) + "\n")


if __name__ == "__main__":
    main()
