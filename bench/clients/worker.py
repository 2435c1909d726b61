"""The process of one client: reads what to run from its input, a JSON object a line, and writes what it took.

Owns: nothing but that conversation. `python -m bench.clients.worker oncelog 127.0.0.1:9092`.
"""

import gc
import json
import sys

from bench.clients.drivers import DRIVERS, Clock


def main() -> None:
    name, bootstrap = sys.argv[1:]
    driver = DRIVERS[name](bootstrap)
    print(json.dumps({"ready": sys.version.split()[0]}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        clock = Clock()
        gc.collect()
        try:
            getattr(driver, asked.pop("method"))(**_decoded(asked), clock=clock)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
            continue
        found = {"wall_s": clock.wall_s, "cpu_s": clock.cpu_s, "durations_s": clock.durations_s}
        print(json.dumps(found), flush=True)


def _decoded(asked: dict[str, object]) -> dict[str, object]:
    size = asked.pop("size", None)
    return asked if size is None else {**asked, "value": bytes(int(str(size)))}


if __name__ == "__main__":
    main()
