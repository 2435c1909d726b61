"""A driver of the demonstration's job that does what a script says: its lives, one after the other, in `lives.json`.

Each life is a list of events; it ends well after `done`, otherwise with an error. The file `orders` has the
orders of all lives.
"""

import argparse
import json
import sys
from pathlib import Path

from oncelog.pipeline.demo.events import emit


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path)
    work: Path = parser.parse_known_args()[0].work
    orders = sys.stdin.readline()
    if not orders:
        return 0
    with (work / "orders").open("a+", encoding="utf-8") as told:
        told.seek(0)
        life = len(told.readlines())
        told.write(orders)
    events = json.loads((work / "lives.json").read_text(encoding="utf-8"))[life]
    for name, *batch in events:
        emit(name, **({"batch": batch[0], "records": 1} if batch else {"java": "a", "spark": "b"}))
    return 0 if events[-1:] == [["done"]] else 1


if __name__ == "__main__":
    sys.exit(main())
