"""A daemon that was killed opens its port when its coordinators can answer, and not before."""

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.clients.copier import CopierRequests
from tests.clients.wire import WireBroker
from tests.conftest import Start
from tests.support.patience import PATIENCE_S


def continue_at_once(copier: CopierRequests, broker: WireBroker) -> None:
    """Repeat the request over new connections until one is not refused."""
    pause = threading.Event()
    copier.broker = broker
    while True:
        try:
            copier.find_coordinators()
            break
        except ConnectionRefusedError:
            pause.wait(0.002)
    copier.add_offsets()
    copier.commit_offset()
    copier.end()


def test_the_first_connection_after_a_kill_continues_a_transaction(start_daemon: Start) -> None:
    daemon = start_daemon()
    before, after = WireBroker(daemon.bootstrap), WireBroker(daemon.bootstrap)
    copier = CopierRequests(before)
    copier.add_offsets()
    daemon.kill()
    with ThreadPoolExecutor(1) as threads:
        continued = threads.submit(continue_at_once, copier, after)
        daemon.start()
        continued.result(PATIENCE_S)
    before.close()
    after.close()
