"""Accepts new connections on the sockets of one listener, as fast as the quotas allow.

Owns: the listening sockets, and when to stop accepting. Does not own: the counts (`broker.net.quotas`), the accepted
connection (`on_accepted`). Invariants
- A connection that may not be accepted yet stays in the system's backlog and costs this process nothing.
- Without descriptors for connections it waits for a connection to end, and logs that once. If the process has none at
  all, although none are reserved, it waits a second rather than spin.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from oncelog.broker.config.listeners import plain_address
from oncelog.broker.net.quotas import ConnectionQuotas
from oncelog.broker.turns.ports import Timer

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker

_AT_ONCE = 32
_HELD_CONNECTIONS = 50
"""How many connections above a quota one listener holds at a time."""
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NO_DESCRIPTORS_PAUSE_MS = 1_000


class Acceptor:
    def __init__(
        self,
        broker: "Broker",
        listener_name: str,
        sockets: Sequence[socket.socket],
        quotas: ConnectionQuotas,
        on_accepted: Callable[[socket.socket, str], None],
    ) -> None:
        self._broker = broker
        self._listener_name = listener_name
        self._sockets = sockets
        self._quotas = quotas
        self._on_accepted = on_accepted
        self._loop = asyncio.get_running_loop()
        self._is_accepting = False
        self._is_closed = False
        self._has_reported = False
        self._timer: Timer | None = None
        self._held: set[socket.socket] = set()
        """The connections above the quota of their address, which end soon."""
        self.resume()

    def resume(self) -> None:
        """Accept again; a limit that still applies takes effect at the next connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_accepting and not self._is_closed:
            self._is_accepting = True
            for each in self._sockets:
                self._loop.add_reader(each.fileno(), self._accept, each)

    def change_broker(self, broker: "Broker") -> None:
        self._broker = broker
        self.resume()

    def close(self, *, keeps_listening: bool = False) -> None:
        """Stop accepting, for good. With `keeps_listening` new connections wait for the next owner of the sockets."""
        self._pause(None)
        self._is_closed = True
        for each in (*(() if keeps_listening else self._sockets), *self._held):
            each.close()

    def _pause(self, wait_ms: float | None) -> None:
        """Stop accepting until `resume`, or for `wait_ms`."""
        if self._is_accepting:
            self._is_accepting = False
            for each in self._sockets:
                self._loop.remove_reader(each.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if wait_ms is None else self._broker.scheduler.call_later(wait_ms, self.resume)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            wait_ms = self._quotas.wait_ms(self._listener_name, self._broker.clock.monotonic_ms())
            if wait_ms != 0:
                if self._quotas.lacks_descriptors:
                    self._report_no_descriptors(f"{self._quotas.count} connections are open")
                self._pause(wait_ms)
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
                self._report_no_descriptors(str(error))
                self._pause(_NO_DESCRIPTORS_PAUSE_MS)
                return
            self._take(accepted, plain_address(address[0]))

    def _take(self, accepted: socket.socket, host: str) -> None:
        if not self._quotas.take(self._listener_name, host):
            self._broker.metrics.connections_refused += 1
            self._broker.logger.info(
                "connection.refused", peer=host, listener=self._listener_name, key="max.connections.per.ip"
            )
            accepted.close()
            return
        wait_ms = self._quotas.quota_ms(host)
        if wait_ms > 0:
            self._quotas.give_back(self._listener_name, host)
            self._refuse_later(accepted, wait_ms)
            return
        accepted.setblocking(False)
        self._on_accepted(accepted, host)

    def _refuse_later(self, accepted: socket.socket, wait_ms: float) -> None:
        """Close the connection later, as Kafka: a client that is refused at once would try again at once."""
        self._broker.metrics.throttled += 1
        if len(self._held) >= _HELD_CONNECTIONS:
            accepted.close()
            return
        self._held.add(accepted)

        def refuse() -> None:
            self._held.discard(accepted)
            accepted.close()

        self._broker.scheduler.call_later(wait_ms, refuse)

    def _report_no_descriptors(self, error: str) -> None:
        if not self._has_reported:
            self._has_reported = True
            self._broker.logger.error(
                "listener.no_descriptors",
                listener=self._listener_name,
                error=error,
                message="new connections wait; allow this process more open files (ulimit -n), or set max.connections",
            )
