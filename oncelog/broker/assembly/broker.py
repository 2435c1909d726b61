"""Builds a broker out of its parts, on the machine that it is given.

Owns: which part gets which other part, and the order in which their state is replayed. Does not own: the machine
(`System`: real in `broker.daemon.app`, virtual in tests and simulation), sockets, signals.
Invariant: when `assemble` returns, every log is recovered, and every coordinator has replayed its records or responds
that it is still loading (`broker.coordinator.loading`).
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.broker.assembly.coordinators import Coordinators, load_coordinators, make_coordinators
from oncelog.broker.assembly.directory import check_directory
from oncelog.broker.assembly.security import find_login_secret, make_authorizer, make_tokens, warn_of_security
from oncelog.broker.assembly.storage import FileReports, compatibility_of, load_metadata, make_store
from oncelog.broker.cluster.leadership import Leadership
from oncelog.broker.cluster.metadata_log import (
    MetadataLog,
)
from oncelog.broker.cluster.nodes import Nodes
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.config.settings import METRIC_REPORTERS, BrokerConfig, StartError
from oncelog.broker.config.topic_config import (
    internal_topic_config,
    log_config_for,
)
from oncelog.broker.fetching.purgatory import FetchPurgatory
from oncelog.broker.fetching.session_cache import FetchSessionCache
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import LogStore
from oncelog.broker.observability.metrics import Metrics, stopwatch
from oncelog.broker.observability.requests import RequestObserver
from oncelog.broker.observability.transitions import TransitionLog
from oncelog.broker.requests.parts import Broker, WhenNeeded
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.topics import INTERNAL_TOPICS

__all__ = ["StartError", "assemble", "check_directory"]

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults
    from oncelog.broker.sharing.manager import SharePartitionManager
    from oncelog.broker.succession.process import Succession
    from oncelog.broker.witness.findings import Finding
    from oncelog.broker.witness.witness import Witness


def assemble(
    config: BrokerConfig,
    system: System,
    log: Any,
    faults: "Faults | None" = None,
    store: LogStore | None = None,
    succession: "Succession | None" = None,
) -> Completion[Broker]:
    """A broker that is recovered and ready to listen; completes once its store has opened every log. `faults` is what
    `system` is wrapped in, if it is; `store` replaces the one that `oncelog.storage` names; with `succession` it is
    one of several nodes. Raises StartError, or fails with it."""
    slices = Slices(system.scheduler)
    assembling = _assemble(config, system, log, faults, slices, store, succession)
    return slices.run_own(_explain_errors(config, assembling))


def _explain_errors(config: BrokerConfig, assembling: Sliced[Broker]) -> Sliced[Broker]:
    try:
        return (yield from assembling)
    except OSError as error:
        problem = str(error) if config.place.storage == "postgres" else trouble(error)
        raise StartError(f"cannot start from {config.place.name}: {problem}.") from error


def _assemble(
    config: BrokerConfig,
    system: System,
    log: Any,
    faults: "Faults | None",
    slices: Slices,
    store: LogStore | None,
    succession: "Succession | None",
) -> Sliced[Broker]:
    system = _machine(config, system)
    metrics = Metrics()
    purgatory = FetchPurgatory(system.scheduler)
    reports = FileReports(log, metrics)
    of_syncs = stopwatch(metrics.sync_seconds) if _is_reported(config) else None
    store = store or (yield from make_store(config, system, log, reports, of_syncs, succession))
    rounds = Rounds(system.scheduler, store, stopwatch(metrics.round_seconds) if _is_reported(config) else None)
    logs = _logs(config, system, store, rounds, purgatory, reports)
    metadata = yield from load_metadata(config, system, logs, log)
    leadership = Leadership(config.get_int("node.id"), metadata, system.scheduler)
    _lead(leadership, rounds, system)
    live_config = LiveConfig(config, metadata, leadership.node_id)
    warn_of_security(log, metadata, live_config)
    topics = make_topics(config, live_config, system, metadata, leadership, logs, slices)
    for line in (yield from topics.load()):
        log.warning("data_dir.entry", message=line)
    nodes = Nodes(leadership.node_id) if succession is None else succession.nodes
    nodes.rack = config.get("broker.rack")
    stored = Stored(slices, metrics, purgatory, rounds, logs, metadata, leadership, live_config, topics, nodes)
    broker, coordinators = make_broker(config, system, log, faults, stored)
    broker.standing = None if succession is None else succession.standing
    if store.lease is not None:
        from oncelog.broker.handlers import current

        broker.put_around_handlers(partial(current.around_handler, store.lease))
    put_around_handlers(broker, faults)
    load_coordinators(config, coordinators, rounds.durability, reports, log)
    if config.get_str("oncelog.storage") == "postgres":
        from oncelog.broker.assembly.postgres import feed_outbox

        feed_outbox(broker)
    return broker


@dataclass(frozen=True, slots=True)
class Stored:
    """The parts of a broker that others are made of."""

    slices: Slices
    metrics: Metrics
    purgatory: FetchPurgatory
    rounds: Rounds
    logs: LogManager
    metadata: MetadataLog
    leadership: Leadership
    live_config: LiveConfig
    topics: Topics
    nodes: Nodes


def _is_reported(config: BrokerConfig) -> bool:
    return any(config.get(key) for key in METRIC_REPORTERS)


def make_broker(
    config: BrokerConfig, system: System, log: Any, faults: "Faults | None", stored: Stored
) -> tuple[Broker, Coordinators]:
    """The broker with its coordinators, whose logs are not replayed yet."""
    metrics, metadata, leadership, topics = stored.metrics, stored.metadata, stored.leadership, stored.topics
    coordinators = make_coordinators(
        *(config, system, faults, stored.rounds, topics, stored.live_config, metadata, leadership, log),
        TransitionLog(log, metrics),
        *(stored.logs, stored.slices),
    )
    broker = Broker(
        live_config=stored.live_config,
        compatibility=compatibility_of(config),
        clock=system.clock,
        entropy=system.entropy,
        scheduler=system.scheduler,
        slices=stored.slices,
        leadership=leadership,
        nodes=stored.nodes,
        cluster_id=metadata.state.cluster_id or "",
        metadata=metadata,
        topics=topics,
        logs=stored.logs,
        rounds=stored.rounds,
        purgatory=stored.purgatory,
        fetch_sessions=_fetch_sessions(config, system, metrics),
        markers=coordinators.markers,
        transactions=coordinators.transactions,
        groups_when_needed=coordinators.groups,
        shares_when_needed=coordinators.shares,
        sharing_when_needed=WhenNeeded(lambda: _make_sharing(broker)),
        metrics=metrics,
        request_observer=RequestObserver(log, metrics, measures=_is_reported(config)),
        logger=log,
        fetch_max_bytes=config.get_int("fetch.max.bytes"),
        login_secret=partial(find_login_secret, stored.logs.store, system),
        authorizer=make_authorizer(config, metadata, log),
        tokens=make_tokens(config, metadata, system),
    )
    return broker, coordinators


def _make_sharing(broker: Broker) -> "SharePartitionManager":
    from oncelog.broker.assembly.sharing import assemble_sharing

    return assemble_sharing(broker)


def _lead(leadership: Leadership, rounds: Rounds, system: System) -> None:
    """Begin the leadership of this start. Raises OSError."""
    durability = rounds.durability
    leadership.begin(system.entropy.uuid(), may_be_older=durability.may_be_older)
    rounds.run_now()  # no client may see a cluster id or leader epochs before they are durable
    if leadership.is_durable and durability.may_be_older:
        durability.keep_place()


def _machine(config: BrokerConfig, system: System) -> System:
    """The machine, its directory checked, and never written by a read-only broker. Raises StartError, OSError."""
    if system.disk is not None:
        check_directory(config, system.disk)
    if not config.get_bool("oncelog.read.only"):
        return system
    from oncelog.broker.assembly.read_only import over_disk

    return over_disk(system)


def put_around_handlers(broker: Broker, faults: "Faults | None") -> None:
    """Put the optional parts around the handlers, from the inside out; each is imported only where it is wanted."""
    config, log = broker.config, broker.logger
    if config.get_bool("oncelog.read.only"):
        from oncelog.broker.handlers import read_only

        broker.put_around_handlers(read_only.around_handler)
    if faults is not None:
        faults.broker = broker
        broker.put_around_handlers(faults.around_handler)
    if broker.authorizer is not None:  # around the faults: what is not allowed does not reach them
        from oncelog.broker.handlers.rights.guard import guard

        broker.put_around_handlers(guard)
    broker.witness = witness = _witness(config, broker.clock, log)
    if witness is not None:  # around the faults: it sees the answers that clients get
        from oncelog.broker.witness import requests

        broker.put_around_handlers(partial(requests.around_handler, witness))
    if broker.metadata.state.has_quotas:
        from oncelog.broker.requests.throttling import quotas_of

        quotas_of(broker)


def _witness(config: BrokerConfig, clock: Clock, log: Any) -> "Witness | None":
    if not config.get_bool("oncelog.witness.enable"):
        return None
    from oncelog.broker.witness.witness import Witness

    def on_found(finding: "Finding") -> None:
        log.info("witness.found", **asdict(finding))

    return Witness(clock, on_found=on_found)


def make_topics(
    config: BrokerConfig,
    live_config: LiveConfig,
    system: System,
    metadata: MetadataLog,
    leadership: Leadership,
    logs: LogManager,
    slices: Slices,
) -> Topics:
    """The topics; their logs and the cleaner follow settings that change at run time."""
    topics = Topics(
        metadata,
        logs,
        system.entropy,
        leadership,
        lambda topic: log_config_for(topic.config, live_config.current),
        {name: internal_topic_config(name, config) for name in sorted(INTERNAL_TOPICS)},
        slices,
    )

    def set_up_cleaner(*_: object) -> None:
        current = live_config.current
        logs.store.set_up_compaction(
            current.get_int("log.cleaner.dedupe.buffer.size"), current.get_int("log.cleaner.backoff.ms")
        )

    live_config.watch(topics.on_config_change)
    live_config.watch(set_up_cleaner)
    set_up_cleaner()
    return topics


def _logs(
    config: BrokerConfig,
    system: System,
    store: LogStore,
    rounds: Rounds,
    purgatory: FetchPurgatory,
    reports: FileReports,
) -> LogManager:
    return LogManager(
        store,
        rounds,
        purgatory,
        system.clock,
        on_damage=reports.on_damage,
        initial_task_delay_ms=config.get_int("log.initial.task.delay.ms"),
        retention_check_interval_ms=config.get_int("log.retention.check.interval.ms"),
        producer_check_interval_ms=config.get_int("producer.id.expiration.check.interval.ms"),
    )


def _fetch_sessions(config: BrokerConfig, system: System, metrics: Metrics) -> FetchSessionCache:
    slot_count = config.get_int("max.incremental.fetch.session.cache.slots")
    return FetchSessionCache(slot_count, system.clock, system.entropy, metrics)
