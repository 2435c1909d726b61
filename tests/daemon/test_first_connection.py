"""A daemon that was killed opens its port when it can answer, and not before."""

import threading
from concurrent.futures import ThreadPoolExecutor

from protocol.errors import ErrorCode
from protocol.generated.find_coordinator_request import FindCoordinatorRequest
from tests.conftest import Start
from tests.support.wire import WireBroker

KINDS = (0, 1)
"""Of a group, and of a transactional id."""


def errors(broker: WireBroker) -> list[ErrorCode]:
    return [broker.ask(FindCoordinatorRequest(key="copier", key_type=kind), 2).error_code for kind in KINDS]


def errors_at_once(bootstrap: str) -> list[ErrorCode]:
    """What the first connection that is not refused is answered."""
    broker, pause = WireBroker(bootstrap), threading.Event()
    try:
        while True:
            try:
                return errors(broker)
            except ConnectionRefusedError:
                pause.wait(0.002)
    finally:
        broker.close()


def test_the_first_connection_after_a_kill_finds_both_coordinators(start_daemon: Start) -> None:
    daemon = start_daemon()
    broker = WireBroker(daemon.bootstrap)
    assert errors(broker) == [ErrorCode.NONE] * len(KINDS)
    broker.close()
    daemon.kill()
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(errors_at_once, daemon.bootstrap)
        daemon.start()
        assert asked.result(30) == [ErrorCode.NONE] * len(KINDS)
