"""Load for a machine on which the tests shall stay green: `python -m tests.support.load 10 1800 & make test`.

So many processes that do nothing but compute, with no niceness, for so many seconds at most.
"""

import multiprocessing
import sys
import time


def burn(end_s: float) -> None:
    while time.monotonic() < end_s:
        sum(range(10_000))


def main(count: int, duration_s: float) -> None:
    end_s = time.monotonic() + duration_s
    processes = [multiprocessing.Process(target=burn, args=(end_s,), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
