"""What a client asks as soon as the broker is back from a kill, in the middle of its transaction: all is answered."""

from collections.abc import Callable

import pytest

from oncelog.broker.coordinator.transaction.shard_life import SETTLE_MS
from tests.clients.copier import CopierRequests
from tests.fakes.broker import VirtualBroker

STOPS: dict[str, Callable[[VirtualBroker], VirtualBroker]] = {
    "kill": VirtualBroker.killed,
    "power": lambda broker: broker.crashed(1),
}
STEPS = (CopierRequests.add_offsets, CopierRequests.commit_offset, CopierRequests.end)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("done", range(len(STEPS)))
def test_a_transaction_continues_with_the_first_request_after_a_restart(done: int, stop: str) -> None:
    broker = VirtualBroker()
    copier = CopierRequests(broker)
    for step in STEPS[:done]:
        step(copier)
    broker.time.advance(2 * SETTLE_MS)
    copier.broker = STOPS[stop](broker)
    copier.find_coordinators()
    # The last answer before the stop may not have arrived: a client sends that request again.
    for step in STEPS[max(0, done - 1) :]:
        step(copier)
