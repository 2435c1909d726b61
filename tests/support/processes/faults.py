"""The faults of a daemon that was started with `oncelog.admin.listen=127.0.0.1:0`."""

from oncelog.faults import FaultClient
from tests.support.processes.daemon import Daemon


def faults_of(daemon: Daemon) -> FaultClient:
    """A client of the address that its latest start has logged."""
    return FaultClient(daemon.address_of("admin"))
