"""Opens the store of a broker that keeps its records in PostgreSQL.

Owns: what operators read about the server, in which words a start is refused. Does not own: the tables
(`broker.storage.postgres`), the store over them (`broker.storage.shared`), the other nodes (`broker.succession`).
"""

from dataclasses import replace
from typing import Any

from oncelog.broker.config.settings import BrokerConfig, SettingsError, StartError
from oncelog.broker.log.store import LogStore
from oncelog.broker.observability.troubles import TroubleLog
from oncelog.broker.outbox.feeder import Feeder
from oncelog.broker.requests.parts import Broker
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.shared.lease import LeaseHeld, LeaseTerms
from oncelog.broker.storage.shared.store import SharedLogStore, SharedSizes, open_store
from oncelog.broker.storage.shared.tables import NO_NODE, Lease
from oncelog.broker.succession.process import Succession
from oncelog.broker.succession.term import WaitLog
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Stopwatch
from oncelog.broker.turns.slices import Sliced


def open_postgres(
    config: BrokerConfig,
    system: System,
    log: Any,
    compaction: CompactionSettings | None,
    stopwatch: Stopwatch | None,
    succession: Succession | None = None,
) -> Sliced[LogStore]:
    """The store, with the lease and no log open yet. A broker that is no node among others takes the lease of one that
    has ended. Raises SettingsError, StartError."""
    tables = succession.tables if succession is not None else (yield from open_tables(config, system, log))
    terms = succession.terms if succession is not None else replace(terms_of(config, system), node_id=NO_NODE)
    place = config.place
    half = config.get_int("oncelog.postgres.cache.bytes") // 2
    sizes = SharedSizes(
        checkpoint_bytes=config.get_int("oncelog.postgres.checkpoint.bytes"), written_bytes=half, fetched_bytes=half
    )
    troubles = TroubleLog(log, place.path)
    try:
        store = yield from open_store(
            tables,
            system.clock,
            system.scheduler,
            system.on_disk_failure,
            compaction,
            sizes,
            terms,
            troubles,
            stopwatch,
            troubles,
            held=None if succession is None else succession.held,
            on_seen=_Impatience(log),
        )
    except LeaseHeld as error:
        raise StartError(f"cannot start from {place.name}: {error}; stop it, or choose another schema.") from error
    tables.watch_outbox(store.outbox.notify)
    if store.durability.may_be_older:
        log.warning(
            "database.restored",
            data_dir=place.path,
            message="the database was restored, copied or promoted since the last start: what it had not received is "
            "lost. Leader epochs and producer ids continue far above those of before, so that clients notice",
        )
    return store


def terms_of(config: BrokerConfig, system: System) -> LeaseTerms:
    return LeaseTerms(
        owner=f"{config.host_name} ({system.entropy.uuid()})",
        lease_ms=config.get_int("oncelog.postgres.lease.ms"),
        node_id=config.get_int("node.id"),
        random=system.entropy.random,
    )


class _Impatience(WaitLog):
    """A WaitLog that raises LeaseHeld once the lease is renewed: its owner is alive, so the start does not wait."""

    def __init__(self, log: Any) -> None:
        super().__init__(log)
        self._first: Lease | None = None

    def __call__(self, seen: Lease) -> None:
        super().__call__(seen)
        first = self._first = self._first or seen
        if (seen.epoch, seen.renewed) != (first.epoch, first.renewed):
            raise LeaseHeld(seen.owner)


def feed_outbox(broker: Broker) -> None:
    """Begin to take what SQL transactions of the same database produce."""
    store = broker.logs.store
    if isinstance(store, SharedLogStore) and not broker.config.get_bool("oncelog.read.only"):
        listener = TroubleLog(broker.logger, broker.config.place.path)
        parts = broker.topics, broker.metrics, broker.clock, broker.scheduler
        broker.outbox = Feeder(store, *parts, listener=listener)
        broker.outbox.start()


def open_tables(config: BrokerConfig, system: System, log: Any) -> Sliced[Any]:
    """Raises SettingsError, StartError."""
    coroutines = system.coroutines
    if coroutines is None:
        raise StartError("oncelog.storage=postgres needs an event loop of asyncio, and this broker has another machine")
    try:
        from oncelog.broker.storage.postgres.preparing import Unreachable, Unusable, prepare
        from oncelog.broker.storage.postgres.session import Server
        from oncelog.broker.storage.postgres.tables import PostgresTables
    except ImportError as error:
        from oncelog.installing import how_to_install

        raise SettingsError(
            f"oncelog.storage=postgres needs asyncpg: {how_to_install('postgres')} ({error})."
        ) from error
    place = config.place
    server = Server(
        config.get("oncelog.postgres.dsn") or None,
        config.get_str("oncelog.postgres.schema"),
        coroutines,
        system.scheduler,
    )
    may_lose = config.get_bool("oncelog.postgres.allow.loss")
    preparing = coroutines.run(prepare(server, may_lose=may_lose))
    yield preparing
    try:
        found = preparing.result()
    except Unreachable as error:
        raise StartError(f"cannot reach {place.name}: {error}") from error
    except Unusable as error:
        raise SettingsError(f"cannot use {place.name}: {error}") from error
    log.info(
        "database.ready",
        data_dir=place.path,
        database=found.database,
        user=found.user,
        server_version=found.server_version,
        fsync=found.fsync,
        synchronous_commit=found.synchronous_commit,
        synchronous_standby_names=found.standby_names,
        message=found.promise,
    )
    return PostgresTables(server, may_lose=may_lose)
