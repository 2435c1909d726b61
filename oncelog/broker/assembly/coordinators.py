"""Builds the coordinators, and decides what follows if their logs cannot be replayed.

Owns: which part of a coordinator gets which other part, and the order of their replay.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncelog.broker.assembly.storage import WHAT_TO_DO, FileReports, compatibility_of
from oncelog.broker.cluster.leadership import Leadership
from oncelog.broker.cluster.metadata_log import (
    MetadataLog,
)
from oncelog.broker.cluster.topics import InternalTopicSource, Topics
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.config.settings import BrokerConfig, StartError
from oncelog.broker.coordinator.loading import CoordinatorLoading
from oncelog.broker.coordinator.partition_markers import LocalMarkerChannel, PartitionMarkers
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, ShardT
from oncelog.broker.coordinator.transaction.coordinator import TransactionCoordinator
from oncelog.broker.coordinator.transaction.dependencies import (
    TransactionDependencies,
    TransactionLimits,
    TransitionListener,
)
from oncelog.broker.coordinator.transaction.markers import MarkerSender
from oncelog.broker.coordinator.transaction.producer_ids import ProducerIdManager
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import Durability
from oncelog.broker.requests.parts import WhenNeeded
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

if TYPE_CHECKING:
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
    from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
    from oncelog.broker.coordinator.share.coordinator import ShareCoordinator
    from oncelog.broker.coordinator.share.shard import ShareShard
    from oncelog.broker.coordinator.transaction.shard_life import TransactionShardLife
    from oncelog.broker.faults.faults import Faults


@dataclass(frozen=True, slots=True)
class Coordinators:
    markers: PartitionMarkers
    transactions: TransactionCoordinator
    groups: "WhenNeeded[GroupCoordinator]"
    shares: "WhenNeeded[ShareCoordinator]"
    transaction_runtime: "CoordinatorRuntime[TransactionShardLife]"
    group_runtime: "CoordinatorRuntime[GroupShardLife]"
    share_runtime: "CoordinatorRuntime[ShareShard]"
    loading: CoordinatorLoading
    failures: "ReplayFailures"


class ReplayFailures:
    """Decides what follows if a coordinator's log cannot be replayed.

    At a start, and while the logs found there are replayed, the broker stops: an operator must decide about the
    directory. A partition that is gained later only fails itself."""

    def __init__(self, system: System, loading: CoordinatorLoading, log: Any) -> None:
        self._system = system
        self._loading = loading
        self._log = log
        self._is_starting = True
        self._errors: list[KafkaError] = []

    def on_failed(self, error: KafkaError) -> None:
        if self._is_starting:
            self._errors.append(error)
        elif not self._loading.caught_up.done:
            self._system.on_disk_failure(OSError(_not_replayed(error)))
        else:
            self._log.error("coordinator.failed", message=_not_replayed(error))

    def check(self) -> None:
        """Raise StartError if a log could not be replayed. Call it at the end of the start."""
        self._is_starting = False
        for error in self._errors:
            raise StartError(_not_replayed(error)) from error


class _Runtimes:
    """Makes the runtimes of the coordinators, one for each topic."""

    def __init__(
        self,
        topics: Topics,
        clock: Clock,
        loading: CoordinatorLoading,
        leadership: Leadership,
        failures: ReplayFailures,
    ) -> None:
        self._topics = topics
        self._clock = clock
        self._loading = loading
        self._leadership = leadership
        self._failures = failures

    def of(
        self, topic: str, make_shard: Callable[[int, int], ShardT], *, needs_every_record: bool = False
    ) -> CoordinatorRuntime[ShardT]:
        runtime = CoordinatorRuntime(
            topic,
            InternalTopicSource(self._topics, topic),
            make_shard,
            self._clock,
            self._loading,
            self._leadership.epoch_of,
            self._failures.on_failed,
            needs_every_record=needs_every_record,
        )
        self._topics.watch_leaders(runtime)
        return runtime


def make_coordinators(
    config: BrokerConfig,
    system: System,
    faults: "Faults | None",
    rounds: Rounds,
    topics: Topics,
    live_config: LiveConfig,
    metadata: MetadataLog,
    leadership: Leadership,
    log: Any,
    transitions: TransitionListener,
    logs: LogManager,
    slices: Slices,
) -> Coordinators:
    """The coordinators, not replayed yet; markers for offsets go through the group runtime."""
    loading = CoordinatorLoading(system.scheduler)
    failures = ReplayFailures(system, loading, log)
    system, channel_to = _time_and_channel(config, system)

    runtimes = _Runtimes(topics, system.clock, loading, leadership, failures)

    def make_groups() -> "GroupCoordinator":
        from oncelog.broker.assembly.groups import assemble_groups

        return assemble_groups(config, system, group_runtime, topics, live_config, metadata, shares.get, slices)

    groups = WhenNeeded(make_groups)

    group_runtime = runtimes.of(CONSUMER_OFFSETS, lambda partition, epoch: groups.get().make_shard(partition, epoch))

    def make_shares() -> "ShareCoordinator":
        from oncelog.broker.assembly.share import assemble_share_coordinator

        return assemble_share_coordinator(config, system.clock, share_runtime, topics, metadata, logs, slices)

    shares = WhenNeeded(make_shares)

    share_runtime = runtimes.of(
        SHARE_GROUP_STATE, lambda partition, epoch: shares.get().make_shard(partition, epoch), needs_every_record=True
    )

    def transaction_shard(partition: int, epoch: int) -> "TransactionShardLife":
        return transactions.make_shard(partition, epoch)

    transaction_runtime = runtimes.of(TRANSACTION_STATE, transaction_shard)
    markers = PartitionMarkers(topics, group_runtime, system.clock)
    channel = channel_to(leadership.node_id, markers)
    if faults is not None:
        channel = faults.around_markers(channel)
        transitions = faults.around_listener(transitions)
    transactions = TransactionCoordinator(
        transaction_runtime,
        ProducerIdManager(metadata, lambda: leadership.registration),
        _transaction_dependencies(config, system, rounds, metadata, leadership, channel, transitions),
    )
    if faults is not None:
        faults.watch(transactions)
    return Coordinators(
        *(markers, transactions, groups, shares, transaction_runtime, group_runtime, share_runtime, loading, failures)
    )


def _time_and_channel(
    config: BrokerConfig, system: System
) -> tuple[System, Callable[[int, PartitionMarkers], MarkerSender]]:
    """The machine of the coordinators, and what makes the channel of their markers: in a read-only broker nothing
    ends."""
    if not config.get_bool("oncelog.read.only"):
        return system, LocalMarkerChannel
    from oncelog.broker.assembly.read_only import HeldMarkers, without_timers

    return without_timers(system), lambda *_: HeldMarkers()


def load_coordinators(
    config: BrokerConfig, coordinators: Coordinators, durability: Durability, reports: FileReports, log: Any
) -> None:
    """Offsets first: markers of transactions that are completed also end offset commits."""
    coordinators.group_runtime.gain_all()
    coordinators.transaction_runtime.gain_all()
    coordinators.share_runtime.gain_all()
    coordinators.loading.begin()
    coordinators.failures.check()
    if config.get_bool("oncelog.read.only"):
        return

    def on_aborted(aborted: Completion[int]) -> None:
        if aborted.error is not None:
            return
        try:
            durability.settle()
        except OSError as error:
            line = f"{trouble(error)}; until then a start after a kill aborts what is open"
            reports.on_problem("data_dir.entry", line)
        if aborted.result():
            message = "the machine stopped before the broker did: they may lack records. Their producers are fenced"
            log.warning("transactions.aborted", transactions=aborted.result(), message=message)

    coordinators.loading.caught_up.then(lambda _: coordinators.transactions.when_aborted().then(on_aborted))


def _not_replayed(error: KafkaError) -> str:
    return f"{error}; {WHAT_TO_DO}."


def _transaction_dependencies(
    config: BrokerConfig,
    system: System,
    rounds: Rounds,
    metadata: MetadataLog,
    leadership: Leadership,
    channel: MarkerSender,
    transitions: TransitionListener,
) -> TransactionDependencies:
    return TransactionDependencies(
        channel,
        leadership.node_of,
        system.clock,
        system.scheduler,
        _transaction_limits(config),
        transitions,
        lambda: metadata.state.features.get("transaction.version", 0),
        lambda: rounds.durability.rounds_are_whole,
        rounds.answer_ahead,
        lambda: rounds.durability.may_be_lost and not config.get_bool("oncelog.read.only"),
    )


def _transaction_limits(config: BrokerConfig) -> TransactionLimits:
    compatibility = compatibility_of(config)
    return TransactionLimits(
        max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
        id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
        expiry_interval_ms=config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        timeout_check_interval_ms=0
        if compatibility.aborts_in_time
        else config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        two_phase_commit=config.get_bool("transaction.two.phase.commit.enable"),
        compatibility=compatibility,
    )
