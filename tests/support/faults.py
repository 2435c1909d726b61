"""The faults of a daemon that was started with `oncelog.admin.listen=127.0.0.1:0`."""

from oncelog.faults import FaultClient
from tests.support.daemon import Daemon


def faults_of(daemon: Daemon) -> FaultClient:
    """A client of the address that its latest start has logged."""
    lines = [line for line in daemon.stderr_path.read_text().splitlines() if "admin.ready" in line]
    address = lines[-1][lines[-1].index("127.0.0.1:") :].split()[0]
    return FaultClient(address.strip("'\","))
