"""The parts of one running broker, by name, as handlers receive them.

Owns only the references. Built by `broker.assembly.broker`, the only place that knows how the parts are made.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from oncelog.broker.apis.compatibility import Compatibility
    from oncelog.broker.cluster.leadership import Leadership
    from oncelog.broker.cluster.metadata_log import MetadataLog
    from oncelog.broker.cluster.nodes import Nodes
    from oncelog.broker.cluster.topics import Topics
    from oncelog.broker.config.live import LiveConfig
    from oncelog.broker.config.settings import BrokerConfig
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
    from oncelog.broker.coordinator.partition_markers import PartitionMarkers
    from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
    from oncelog.broker.coordinator.transaction.coordinator import TransactionCoordinator
    from oncelog.broker.fetching.purgatory import FetchPurgatory
    from oncelog.broker.fetching.session_cache import FetchSessionCache
    from oncelog.broker.log.log_manager import LogManager
    from oncelog.broker.log.rounds import Rounds
    from oncelog.broker.observability.metrics import Metrics
    from oncelog.broker.observability.requests import RequestObserver
    from oncelog.broker.outbox.feeder import Feeder
    from oncelog.broker.requests.context import AroundHandler
    from oncelog.broker.security.authorizer import Authorizer
    from oncelog.broker.security.delegation_tokens import DelegationTokens
    from oncelog.broker.security.quotas import Quotas
    from oncelog.broker.security.scram import ScramUsers
    from oncelog.broker.sharing.manager import SharePartitionManager
    from oncelog.broker.succession.standing import Standing
    from oncelog.broker.turns.ports import Clock, Entropy, Scheduler
    from oncelog.broker.turns.slices import Slices


T = TypeVar("T")


class MistakeReport(Protocol):
    """The part of the witness that shows what it has found."""

    def report(self) -> Any: ...


class WhenNeeded(Generic[T]):
    """A part that is created on first use, a coordinator also when its log has records: a start need not wait for code
    that many brokers never run."""

    def __init__(self, make: "Callable[[], T]") -> None:
        self._make = make
        self.known: T | None = None

    def get(self) -> T:
        if self.known is None:
            self.known = self._make()
        return self.known


@dataclass(slots=True)
class Broker:
    live_config: "LiveConfig"
    compatibility: "Compatibility"
    clock: "Clock"
    entropy: "Entropy"
    scheduler: "Scheduler"
    slices: "Slices"
    leadership: "Leadership"
    nodes: "Nodes"
    cluster_id: str
    metadata: "MetadataLog"
    topics: "Topics"
    logs: "LogManager"
    rounds: "Rounds"
    purgatory: "FetchPurgatory"
    fetch_sessions: "FetchSessionCache"
    markers: "PartitionMarkers"
    transactions: "TransactionCoordinator"
    groups_when_needed: "WhenNeeded[GroupCoordinator]"
    shares_when_needed: "WhenNeeded[ShareCoordinator]"
    sharing_when_needed: "WhenNeeded[SharePartitionManager]"
    metrics: "Metrics"
    request_observer: "RequestObserver"
    logger: Any
    """structlog's bound logger; its own types say Any too."""
    fetch_max_bytes: int
    login_secret: "Callable[[], bytes]"
    """Returns the secret of this data directory; it is made at the first call."""
    authorizer: "Authorizer | None" = None
    """Decides which requests are allowed; None if all of them are."""
    witness: "MistakeReport | None" = None
    """The report of clients' mistakes; None unless the witness is enabled."""
    quotas: "Quotas | None" = None
    """The quotas; None until the first one is set (`throttling.quotas_of`)."""
    scram_users: "ScramUsers | None" = None
    """Made for the first listener with logins and shared by all: an unknown user looks the same on every listener."""
    tokens: "DelegationTokens | None" = None
    """The delegation tokens; None unless there is a key for them."""
    outbox: "Feeder | None" = None
    """Takes the rows that SQL transactions produce; None unless the store is in PostgreSQL."""
    standing: "Standing | None" = None
    """The role of this node among several; None if it is the only one."""
    around_handlers: "list[AroundHandler]" = field(default_factory=list)
    """The wrappers around the handler of each API, the innermost first."""
    on_around: "list[Callable[[AroundHandler], None]]" = field(default_factory=list)
    """Callbacks that wrap handlers loaded before."""

    def put_around_handlers(self, around: "AroundHandler") -> None:
        """Put a wrapper around every handler, outside of those that it has."""
        self.around_handlers.append(around)
        for put in self.on_around:
            put(around)

    @property
    def serves_unstable(self) -> bool:
        """Whether versions are listed and served that Kafka may still change: in Kafka a separate setting; here
        two-phase commit, which needs one, is enough."""
        config = self.config
        return config.get_bool("unstable.api.versions.enable") or (
            config.get_bool("transaction.two.phase.commit.enable") and self.compatibility.lists_two_phase_commit
        )

    @property
    def config(self) -> "BrokerConfig":
        """The current settings."""
        return self.live_config.current

    @property
    def groups(self) -> "GroupCoordinator":
        return self.groups_when_needed.get()

    @property
    def known_groups(self) -> "GroupCoordinator | None":
        """The group coordinator; None until the first group request, unless a group was found at the start."""
        return self.groups_when_needed.known

    @property
    def share_coordinator(self) -> "ShareCoordinator":
        return self.shares_when_needed.get()

    @property
    def sharing(self) -> "SharePartitionManager":
        return self.sharing_when_needed.get()
