"""When the loop stays awake for the next request, and that it sleeps soon."""

from collections.abc import Callable

import pytest

from oncelog.broker.net.busy_poll import BusyPoll
from tests.clients.in_memory_connection import Server, api_versions

TURN_S = 2e-6
QUICK_S, SLOW_S = 60e-6, 1e-3


class Loop:
    """A loop that sleeps through a pause unless a callback wants the next turn; a turn takes 2 µs."""

    def __init__(self) -> None:
        self.time_s = 1.0
        self.turns = 0
        self.waiting: list[Callable[[], None]] = []
        self.busy_poll = BusyPoll(self.waiting.append, lambda: self.time_s)

    def pause(self, duration_s: float) -> int:
        """Turns that were taken meanwhile."""
        before, until_s = self.turns, self.time_s + duration_s
        while self.waiting and self.time_s < until_s:
            self.time_s += TURN_S
            self.turns += 1
            self.waiting.pop(0)()
        self.time_s = until_s
        return self.turns - before

    def exchanges(self, count: int, pause_s: float) -> int:
        """Requests that each come this long after the last response; the turns before the last of them."""
        turns = 0
        for _ in range(count):
            turns = self.pause(pause_s)
            self.busy_poll.on_request()
            self.busy_poll.on_response()
        return turns


def test_the_loop_stays_awake_for_a_client_that_is_quick() -> None:
    assert Loop().exchanges(20, QUICK_S) == pytest.approx(QUICK_S / TURN_S, abs=1)


def test_the_loop_sleeps_before_the_requests_of_a_client_that_takes_its_time() -> None:
    assert Loop().exchanges(20, SLOW_S) == 0


def test_a_client_that_has_become_slow_is_not_waited_for_any_more() -> None:
    loop = Loop()
    loop.exchanges(100, QUICK_S)
    loop.exchanges(3, SLOW_S)
    assert loop.pause(SLOW_S) == 0


def test_every_other_slow_request_is_enough_to_let_the_loop_sleep() -> None:
    loop = Loop()
    for _ in range(50):
        loop.exchanges(1, QUICK_S)
        loop.exchanges(1, SLOW_S)
    assert loop.pause(SLOW_S) == 0


def test_after_the_last_response_the_loop_sleeps_within_a_fifth_of_a_millisecond() -> None:
    loop = Loop()
    loop.exchanges(20, QUICK_S)
    awake_s = loop.pause(10 * SLOW_S) * TURN_S
    assert 0 < awake_s < 200e-6
    assert not loop.waiting


def test_several_responses_in_a_turn_keep_one_turn_in_wait() -> None:
    loop = Loop()
    loop.exchanges(20, QUICK_S)
    loop.busy_poll.on_response()
    loop.busy_poll.on_response()
    assert len(loop.waiting) == 1


def test_connections_notify_of_requests_and_responses() -> None:
    server, loop = Server(), Loop()
    server.open.busy_poll = loop.busy_poll
    transport = server.connect()
    for number in range(20):
        loop.pause(QUICK_S)
        server.send(transport, api_versions(number))
    assert loop.pause(QUICK_S) > 0
