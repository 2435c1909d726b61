"""The first request of an API waits for an import in a thread; whatever comes on other connections is answered."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.broker.apis.descriptor import Api
from oncelog.broker.requests import dispatch
from tests.clients.in_memory_connection import (
    Server,
    Transport,
    api_versions,
    correlation_ids,
    frame,
    metadata,
    produce,
)
from tests.fakes.scheduler import ManualScheduler

ROOT = Path(__file__).parents[3]


class Imports:
    """A server whose imports are done when the test lets them."""

    def __init__(self) -> None:
        self.thread = ManualScheduler()
        self.server = Server(run_in_thread=self.thread.run_in_thread)

    def finish(self) -> None:
        self.thread.run()
        self.server.settle()

    def sent(self, data: bytes, transport: Transport | None = None) -> Transport:
        transport = transport or self.server.connect()
        self.server.send(transport, data)
        self.server.settle()
        return transport


@pytest.fixture
def imports() -> Imports:
    return Imports()


def test_others_are_answered_while_an_api_is_imported(imports: Imports) -> None:
    other = imports.sent(api_versions(1))
    imports.finish()
    waiting = imports.sent(metadata(2, "t"))
    imports.sent(api_versions(3), other)
    assert (correlation_ids(other.sent), correlation_ids(waiting.sent)) == ([1, 3], [])
    imports.finish()
    assert correlation_ids(waiting.sent) == [2]


def test_a_connection_keeps_its_order_over_first_requests(imports: Imports) -> None:
    transport = imports.sent(api_versions(1))
    imports.finish()
    imports.sent(metadata(2, "t") + api_versions(3) + produce(4, "t") + produce(5, "t") + api_versions(6), transport)
    assert correlation_ids(transport.sent) == [1]
    imports.finish()
    assert correlation_ids(transport.sent) == [1, 2, 3]
    imports.finish()
    assert correlation_ids(transport.sent) == [1, 2, 3, 4, 5, 6]


def test_an_api_is_imported_once_for_all_waiting_requests(imports: Imports) -> None:
    waiting = [imports.sent(metadata(number, "t")) for number in range(3)]
    assert len(imports.thread.threads) == 1
    imports.finish()
    assert [correlation_ids(transport.sent) for transport in waiting] == [[0], [1], [2]]
    imports.sent(metadata(3, "t"))
    assert not imports.thread.threads


def test_waiting_requests_start_one_after_the_other_has_been_sent_its_answer(imports: Imports) -> None:
    """Otherwise answers would be made before it is known that those before are not read."""
    waiting = [imports.sent(api_versions(number)) for number in range(3)]
    imports.thread.run_thread()
    imports.thread.run()
    answered = []
    while imports.server.virtual.time.turn():
        answered.append(sum(bool(transport.sent) for transport in waiting))
    assert answered == [1, 2, 3]


@pytest.mark.parametrize("data", [frame(3, 99, 1, []), frame(3, 8, 1, [b"\0"])], ids=["version", "body"])
def test_a_bad_first_request_closes_its_connection_and_no_other(imports: Imports, data: bytes) -> None:
    bad, good = imports.sent(data), imports.sent(metadata(2, "t"))
    imports.finish()
    assert bad.is_closed
    assert correlation_ids(good.sent) == [2]


def test_a_request_of_a_disconnected_client_is_not_served(imports: Imports) -> None:
    gone = imports.sent(metadata(1, "t"))
    gone.abort()
    imports.finish()
    assert not imports.server.virtual.broker.topics.all()


@pytest.mark.interpreted
def test_a_failed_import_is_tried_again(imports: Imports, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Api) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as context:
        context.setattr(dispatch, "import_api", fail)
        unlucky = imports.sent(metadata(1, "t"))
        imports.finish()
    assert unlucky.is_closed
    assert "request.failed" in str(imports.server.virtual.warnings)
    again = imports.sent(metadata(2, "t"))
    imports.finish()
    assert correlation_ids(again.sent) == [2]


@pytest.mark.slow
def test_a_loaded_api_imports_nothing_more() -> None:
    """Each API in a process that has loaded no other; what it imports beyond is imported on the event loop."""
    command = [sys.executable, "-P", "-m", "tests.support.requests.late_imports"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
