"""Client quotas: which one applies to a client, and how much of it is used (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612).

Owns: the rules of precedence, and what each client has used. Does not own: the quotas (`broker.cluster.security_state`,
records of the metadata log), how a client is made to wait (`broker.requests.throttling`, `broker.net`).
Invariants
- A change counts from the turn in which its record is replayed.
- What is known of clients is bounded: a client that has used nothing for a while is forgotten.

Kafka's rules. Of these the first that has a quota of the wanted key counts: user and client id; user and any client id;
user; any user and client id; any user and any client id; any user; client id; any client id. A quota that names both
limits each pair of the two, one that names users each user with all of their clients, one that names client ids all
clients of that id of any user. A broker without quotas has no `Quotas`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from oncelog.broker.security.rate import TokenBucket
from oncelog.broker.turns.ports import MonotonicMs

if TYPE_CHECKING:
    from oncelog.broker.cluster.security_state import QuotaEntity, SecurityState
    from oncelog.broker.config.settings import BrokerConfig
    from oncelog.broker.turns.ports import Clock

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
_FEWEST_KNOWN = 1_000
"""How many clients are remembered before those with full buckets are looked for and forgotten."""
_MOST_FOUND = 10_000
_LONGEST_CLIENT_ID = 256
"""How much of a client id counts: a client may send another one of 32 KiB with each request."""


class Limit(NamedTuple):
    """A quota that applies to a client, and what shares it."""

    value: float
    """The limit in units a second; for `request_percentage`, percent of the time of the broker's one thread."""
    user: str
    client_id: str
    """The client id; empty for all users, or all client ids."""


class Quotas:
    def __init__(self, state: "SecurityState", clock: "Clock", config: "BrokerConfig") -> None:
        self._state = state
        self._clock = clock
        self._limits: dict[tuple[str, str, str], Limit | None] = {}
        """The limits looked up since the last change, by key, user and client id."""
        self._buckets: dict[tuple[str, str, str], TokenBucket] = {}
        """Buckets by key, user and client id; an empty name is shared by all. Buckets of connections are by address."""
        self._look_at = _FEWEST_KNOWN
        sample_s = config.get_int("quota.window.size.seconds")
        # As in Kafka, where a rate is measured over all samples but the newest one at least.
        self._window_s = max(1, config.get_int("quota.window.num") - 1) * sample_s
        self._mutation_window_s = config.get_int("controller.quota.window.num") * config.get_int(
            "controller.quota.window.size.seconds"
        )
        self.longest_request_wait_ms = sample_s * 1_000
        """The longest single wait of a client for the time that its requests take."""
        state.watch(self._on_record)

    def _on_record(self, _: Any) -> None:
        self._limits.clear()

    # --- which one applies --------------------------------------------------------------------------------------------

    def limit(self, key: str, user: str, client_id: str) -> Limit | None:
        client_id = client_id[:_LONGEST_CLIENT_ID]
        asked = (key, user, client_id)
        try:
            return self._limits[asked]
        except KeyError:
            if len(self._limits) >= _MOST_FOUND:
                self._limits.clear()
            found = self._limits[asked] = _find(self._state.quotas, key, user, client_id)
            return found

    def _ip_limit(self, host: str) -> float | None:
        """Return the limit on new connections per second of one address."""
        quotas = self._state.quotas
        for name in (host, None):
            value = quotas.get((("ip", name),), {}).get(CONNECTION_CREATION_RATE)
            if value is not None:
                return value
        return None

    def most_fetched(self, limit: Limit) -> int:
        """Return the most bytes that one Fetch may have."""
        return int(limit.value * self._window_s)

    @property
    def known_count(self) -> int:
        """How many clients have used something lately."""
        return len(self._buckets)

    # --- what is used -------------------------------------------------------------------------------------------------

    def use(self, key: str, limit: Limit, units: float) -> float:
        """Count this use; returns how many milliseconds the client has to wait."""
        monotonic_ms, burst = self._clock.monotonic_ms(), limit.value * self._window_s
        bucket = self._bucket(key, limit, burst)
        bucket.take(units, limit.value, burst, monotonic_ms)
        return bucket.owed_ms(limit.value, burst, monotonic_ms)

    def connect(self, host: str) -> float:
        """Count a new connection of this address; returns for how many milliseconds it may have none, in which case
        this one did not count."""
        value = self._ip_limit(host)
        if value is None:
            return 0.0
        limit = Limit(value, host, "")
        wait_ms = self.use(CONNECTION_CREATION_RATE, limit, 1)
        if wait_ms:
            self.use(CONNECTION_CREATION_RATE, limit, -1)
        return wait_ms

    def mutations(self, user: str, client_id: str) -> tuple[TokenBucket, float, float] | None:
        """Return the client's limit for creating and deleting partitions: its bucket, the tokens per second, and the
        most it holds."""
        limit = self.limit(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return None
        burst = limit.value * self._mutation_window_s
        return self._bucket(CONTROLLER_MUTATION_RATE, limit, burst), limit.value, burst

    def _bucket(self, key: str, limit: Limit, burst: float) -> TokenBucket:
        shared_by = (key, limit.user, limit.client_id)
        bucket = self._buckets.get(shared_by)
        if bucket is None:
            monotonic_ms = self._clock.monotonic_ms()
            if len(self._buckets) >= self._look_at:
                self._forget_full(monotonic_ms)
            bucket = self._buckets[shared_by] = TokenBucket(burst, monotonic_ms)
        return bucket

    def _forget_full(self, monotonic_ms: MonotonicMs) -> None:
        """Forget clients with full buckets. The next look comes after as many new clients as are left, so that each
        costs little."""
        kept = {}
        for (key, user, client_id), bucket in self._buckets.items():
            value = self._ip_limit(user) if key == CONNECTION_CREATION_RATE else self._value(key, user, client_id)
            window_s = self._mutation_window_s if key == CONTROLLER_MUTATION_RATE else self._window_s
            if value is not None and not bucket.is_full(value, value * window_s, monotonic_ms):
                kept[key, user, client_id] = bucket
        self._buckets = kept
        self._look_at = max(_FEWEST_KNOWN, 2 * len(kept))

    def _value(self, key: str, user: str, client_id: str) -> float | None:
        limit = self.limit(key, user, client_id)
        return None if limit is None else limit.value


def _find(quotas: Mapping["QuotaEntity", Mapping[str, float]], key: str, user: str, client_id: str) -> Limit | None:
    for named_user in (user, None):
        for named_id in (client_id, None):
            value = quotas.get((("client-id", named_id), ("user", named_user)), {}).get(key)
            if value is not None:
                return Limit(value, user, client_id)
        value = quotas.get((("user", named_user),), {}).get(key)
        if value is not None:
            return Limit(value, user, "")
    for named_id in (client_id, None):
        value = quotas.get((("client-id", named_id),), {}).get(key)
        if value is not None:
            return Limit(value, "", client_id)
    return None
