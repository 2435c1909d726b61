"""Connection limits: in total, per listener, per address, and new ones per second.

Owns: the counts and the verdict. Does not own: sockets (`broker.net.acceptor`).
Invariants
- As in Kafka, a full broker or listener and too high a rate make new connections wait, unaccepted; one too many from
  one address is accepted and closed at once.
- Limits are read from the current settings (KIP-612, KIP-226): a change applies from the next connection on.
- Whatever the settings, there are no more connections than descriptors reserved for them: the rest are for logs.
- An address whose quota of new connections (entity type `ip`, KIP-612) is used up has its next one accepted, held for
  as long as it has to wait, and closed.
"""

from collections.abc import Callable

from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.turns.ports import MonotonicMs


class ConnectionQuotas:
    def __init__(
        self,
        settings: Callable[[], BrokerConfig],
        descriptor_count: int | None = None,
        quota_ms: Callable[[str], float] = lambda _: 0.0,
    ) -> None:
        """`descriptor_count` is how many the connections of all listeners may hold; None for any number. `quota_ms`
        counts a connection of an address, and returns for how long that may have no more (0: it may)."""
        self._settings = settings
        self.quota_ms = quota_ms
        self._descriptor_count = descriptor_count
        self._of_listener: dict[str, int] = {}
        self._of_host: dict[str, int] = {}
        self._rates: dict[str, _Rate] = {}
        self.count = 0

    def wait_ms(self, listener_name: str, monotonic_ms: MonotonicMs) -> float | None:
        """Return how long `listener_name` must wait before accepting: 0 for not at all, None for until a connection
        ends."""
        settings = self._settings()
        if self.lacks_descriptors or self.count >= settings.get_int("max.connections"):
            return None
        of_listener = settings.get_listener_int(listener_name, "max.connections")
        if of_listener is not None and self._of_listener.get(listener_name, 0) >= of_listener:
            return None
        wait_ms = self._rate("").wait_ms(settings.get_int("max.connection.creation.rate"), monotonic_ms)
        rate_of_listener = settings.get_listener_int(listener_name, "max.connection.creation.rate")
        if rate_of_listener is not None:
            wait_ms = max(wait_ms, self._rate(listener_name).wait_ms(rate_of_listener, monotonic_ms))
        return wait_ms

    @property
    def lacks_descriptors(self) -> bool:
        return self._descriptor_count is not None and self.count >= self._descriptor_count

    def take(self, listener_name: str, host: str) -> bool:
        """Count an accepted connection; False if its address has too many, and it is not counted."""
        self._rate("").taken()
        self._rate(listener_name).taken()
        settings = self._settings()
        of_host = self._of_host.get(host, 0)
        if of_host >= settings.connection_limits.get(host, settings.get_int("max.connections.per.ip")):
            return False
        self.count += 1
        self._of_host[host] = of_host + 1
        self._of_listener[listener_name] = self._of_listener.get(listener_name, 0) + 1
        return True

    def give_back(self, listener_name: str, host: str) -> None:
        """Stop counting a connection that has ended."""
        self.count -= 1
        self._of_listener[listener_name] -= 1
        self._of_host[host] -= 1
        if not self._of_host[host]:
            del self._of_host[host]

    def _rate(self, name: str) -> "_Rate":
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = _Rate()
        return rate


class _Rate:
    """New connections in the current second: once the limit is reached, the rest wait for the next second."""

    __slots__ = ("_count", "_until_ms")

    def __init__(self) -> None:
        self._count = 0
        self._until_ms = 0

    def wait_ms(self, limit: int, monotonic_ms: MonotonicMs) -> float:
        if monotonic_ms >= self._until_ms:
            self._count = 0
            self._until_ms = monotonic_ms + 1_000
        return 0 if self._count < limit else self._until_ms - monotonic_ms

    def taken(self) -> None:
        self._count += 1
