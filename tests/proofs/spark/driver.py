"""A driver of its own, to be really killed: one query from its checkpoint to the end, in a process with its own JVM.

It says the process id of its JVM, and with `--stop` that it has come to that step of publishing, where it waits for a
line of input before it continues.
"""

import argparse
import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from random import Random

from oncelog.pipeline.sink import Step
from oncelog.pipeline.sink.publish import Moment
from oncelog.pipeline.sink.table_files import TableStep
from tests.proofs.spark.scene import Scene
from tests.proofs.spark.session import session

THERE = "there"
STEPS: dict[str, Step | TableStep] = {each.value: each for steps in (Step, TableStep) for each in steps}


@dataclass(frozen=True, slots=True)
class Reached:
    """A broker that runs already."""

    bootstrap: str


@dataclass
class Stop:
    """Stops at the `nth` time that a step is reached."""

    step: Step | TableStep
    moment: Moment
    nth: int
    seen: int = 0

    async def on_step(self, step: Step | TableStep, moment: Moment) -> None:
        self.seen += (step, moment) == (self.step, self.moment)
        if (step, moment) == (self.step, self.moment) and self.seen == self.nth:
            sys.stdout.write(THERE + "\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.readline)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("sink", "bootstrap", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--stop", nargs=3, metavar=("STEP", "MOMENT", "NTH"))
    arguments = parser.parse_args()
    with session(arguments.directory) as spark:
        sys.stdout.write(f"{spark._jvm.java.lang.ProcessHandle.current().pid()}\n")
        sys.stdout.flush()
        scene = Scene(
            spark,
            Reached(arguments.bootstrap),
            arguments.directory,
            arguments.sink,
            arguments.topic,
            Random(0),
            hit=None,
        )
        if arguments.stop is not None:
            step, moment, nth = arguments.stop
            scene.harness = {"on_step": Stop(STEPS[step], moment, int(nth)).on_step}
        scene.run()


if __name__ == "__main__":
    main()
