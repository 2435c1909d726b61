"""A broker for tests: start it, look at what is in it, crash it, move its time on.

Owns: what outlives a crash: the disk, the port, how far time was moved. Does not own: a run of the broker (`lives`),
how it is asked (the public client and fault injection, so that it is no other broker than the one that users run).
"""

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from os import PathLike
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Self, TypeVar
from uuid import uuid4

from oncelog.broker.config.settings import ConfigError, StartError
from oncelog.broker.system.shared_notes import remove_orphans
from oncelog.testing.lives import Life, ProcessLife, ThreadLife
from oncelog.testing.memory_disk import MemoryDisk
from oncelog.testing.secured import OWN_USER, USER, ClientStyle, Secured, Security
from oncelog.testing.tables import Tables
from oncelog.testing.waiting import WAIT_S, wait_until

if TYPE_CHECKING:  # imported by the first use: a test of code with another client needs a broker only
    from oncelog.client import IsolationLevel, RecordMetadata, TopicPartition, TransactionDescription
    from oncelog.client.blocking.clients import Admin
    from oncelog.client.values.records import Headers
    from oncelog.client.wire.security import ScramMechanism
    from oncelog.faults import FaultClient
    from oncelog.http_port import HttpPort
    from oncelog.testing.asynchronous import AsyncBroker
    from oncelog.testing.schema_registry import SchemaRegistry
    from oncelog.testing.stored import StoredRecord
    from oncelog.witness import Finding

__tracebackhide__ = True  # pytest then shows the test's own line, and what the broker said
P = ParamSpec("P")
T = TypeVar("T")
Setting = str | int | bool
_POLL_MS = 1_000
_FARTHEST_S = 10 * 366 * 86_400
"""The bound of fault injection for one step."""
_FOR_TESTS: Mapping[str, Setting] = {
    # Kafka's own waits three seconds for further members before a group's first rebalance.
    "group.initial.rebalance.delay.ms": 0,
    # Two files of sixteen megabytes otherwise, allocated at each start.
    "oncelog.journal.file.bytes": 1024 * 1024,
    "oncelog.witness.enable": True,
}
_OWN_CLIENT_ID = "oncelog-testing"
"""The client id of the broker object itself, which the witness leaves out."""


def _refused_there(method: Callable[P, T]) -> Callable[P, T]:
    """Raise what the broker refuses, or will not start with, at the caller's line: its way here explains nothing."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        from oncelog.client.values.errors import KafkaError

        try:
            return method(*args, **kwargs)
        except KafkaError as error:
            raise error.with_traceback(None) from error.__cause__
        except (ConfigError, StartError) as error:
            raise error.with_traceback(None) from None

    return call


class Clock:
    """The time of a broker, which a test moves on."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.ahead_ms = 0
        """How far the broker's time is before that of the machine."""

    def now_ms(self) -> int:
        """Return the broker's wall clock, which also stamps what `Broker.produce` writes. Raises RuntimeError unless
        the broker runs."""
        return self._broker.faults.now_ms()

    def advance(self, seconds: float) -> None:
        """Let this time pass in the broker at once, as if the machine had slept: what is due by then runs, such as
        timeouts of transactions and sessions, and the checks for old segments, old offsets and logs to compact. These
        three look at the timestamps of records and offsets: those that clients set themselves are the machine's."""
        if not 0 <= seconds <= _FARTHEST_S:
            raise ValueError(f"clock.advance({seconds!r}): time moves on by 0 to {_FARTHEST_S} seconds, never back")
        step_ms = round(seconds * 1000)
        self._broker.faults.advance_time(step_ms)
        self.ahead_ms += step_ms


class Broker:
    """A real broker, which unmodified Kafka clients reach over TCP.

        with Broker(partitions=3) as broker:
            broker.produce("orders", b"42", key=b"customer-7")
            assert [record.value for record in broker.records("orders")] == [b"42"]

    By default it runs in a thread of this process, and its files are in memory. It is the broker of `oncelog serve`
    with its journal, its recovery and its coordinators; only the disk is another one, which forgets in a crash what was
    not synced.
    """

    def __init__(
        self,
        *,
        partitions: int = 1,
        config: Mapping[str, Setting] | None = None,
        storage: str | PathLike[str] = "memory",
        process: bool = False,
        port: int = 0,
        seed: int = 0,
        security: Security | None = None,
        schema_registry: bool = False,
    ) -> None:
        """`partitions` is how many a topic has that is created by its first use. `config` has settings of the broker by
        Kafka's names (docs/start/configuration.md). `storage` is "memory"; "disk", a temporary directory; a directory
        as a Path, which stays; or "postgresql://…", where it has a schema of its own until `close`, or the one of
        `config`'s oncelog.postgres.schema, which stays. With `process` the broker is a process of its own, and never in
        memory. `port` 0 picks a free one, which is kept over restarts. `seed` decides what a crash loses. `security`,
        such as "SASL_SSL/SCRAM-SHA-512", is what the listener asks of clients: `client_settings` has what they need.
        With TLS it needs `oncelog[testing]`. With `schema_registry` there is one at `schema_registry_url`."""
        self.clock = Clock(self)
        if isinstance(storage, str) and storage not in ("memory", "disk") and "://" not in storage:
            raise ValueError(f"storage={storage!r}: it is 'memory', 'disk', 'postgresql://…' or a pathlib.Path")
        self._config = {**_FOR_TESTS, "num.partitions": partitions, **(config or {})}
        self._storage = "disk" if process and storage == "memory" else storage
        self._is_process = process
        self._port = port
        self._random = Random(seed)
        self._secured = None if security is None else Secured(security)
        self._has_registry = schema_registry
        self._registry: SchemaRegistry | None = None
        self._disk: MemoryDisk | Path | Tables | None = None
        self._life: Life | None = None
        self._admin: Admin | None = None
        self._lock = threading.Lock()
        """Held while what a run has once is made, which several threads may ask for."""
        self._has_crashed = False

    # -- starts and stops

    @_refused_there
    def start(self) -> Self:
        """Start it, on what an earlier run has left. Returns itself. Raises ConfigError for a wrong setting, StartError
        if it cannot run, RuntimeError with what it said if it is a process."""
        if self._life is not None:
            raise RuntimeError("the broker is running: stop it first, or use restart()")
        if self._port:
            self._check_port()
        if self._disk is None:
            self._disk = self._new_disk()
        listener = {"listeners": f"PLAINTEXT://127.0.0.1:{self._port}"}
        if self._secured is not None:
            listener = self._secured.broker_settings(self._port)
        # The clocks start where they were: `advance_time` after the start would let that time pass a second time.
        listener["oncelog.admin.clock.ahead.ms"] = str(self.clock.ahead_ms)
        settings = {key: _text(value) for key, value in {**listener, **self._config}.items()}
        if self._secured is not None and "authorizer.class.name" in settings:
            others = settings.get("super.users")
            settings["super.users"] = ";".join(filter(None, (others, f"User:{OWN_USER}")))
        if self._is_process and not isinstance(self._disk, MemoryDisk):
            self._life = ProcessLife(settings, self._disk)
        else:
            self._life = ThreadLife(settings, self._disk, after_crash=self._has_crashed)
        self._has_crashed = False
        self._port = int(self._life.addresses[0].rpartition(":")[2])
        if self._secured is not None and self._secured.scram_mechanism is not None:
            self._make_user(self._secured, self._secured.scram_mechanism)
        if self._has_registry:
            self._load_registry()
        return self

    def stop(self) -> None:
        """Stop it cleanly, if it runs; `start` continues with the same data."""
        self._end("stop")

    def kill(self) -> None:
        """End it as kill -9 does: clients lose their connections, and whatever it has written to its disk is there
        after `restart`, transactions that were open included."""
        self._end("kill")

    def power_cut(self) -> None:
        """End it as a power cut does: beyond `kill`, what was not synced to the disk may be lost or torn, as `seed`
        decides. What was acknowledged as durable is there after `restart`, which aborts transactions that may lack
        records, and fences their producers. Raises RuntimeError with any storage but memory: nothing takes back
        what a real disk has."""
        if self._storage != "memory":
            raise RuntimeError("power_cut() needs storage='memory', which alone forgets what is not synced: use kill()")
        self._end("kill")
        if isinstance(self._disk, MemoryDisk):
            self._disk = self._disk.crash(self._random)

    def crash(self) -> None:
        """Do the worst that this storage knows: `power_cut` in memory, else `kill`."""
        if self._storage == "memory":
            self.power_cut()
        else:
            self.kill()

    def restart(self) -> None:
        """Start it again on the same port and data, after a clean stop if it runs."""
        self.stop()
        self.start()

    def wait_ended(self, timeout_s: float = WAIT_S) -> None:
        """Wait until a fault rule has crashed it. Raises TimeoutError."""
        life = self._running()
        wait_until(lambda: life.has_ended or None, timeout_s, lambda: f"the broker at {self.bootstrap_servers} runs")

    def close(self) -> None:
        """Stop it, and remove what it kept in a temporary directory."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.close()
        self.stop()
        if self._storage == "disk" and isinstance(self._disk, Path):
            shutil.rmtree(self._disk, ignore_errors=True)
            remove_orphans()  # the note of one that was killed: while the parent shows that it is not elsewhere
            shutil.rmtree(self._disk.parent, ignore_errors=True)
        if isinstance(self._disk, Tables):
            self._disk.drop()
            shutil.rmtree(self._disk.directory.parent, ignore_errors=True)
        self._disk = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- what is in it

    @property
    def aio(self) -> "AsyncBroker":
        """This broker for code on an event loop: `await broker.aio.records("orders")`, and so each blocking method."""
        from oncelog.testing.asynchronous import AsyncBroker

        return AsyncBroker(self)

    @property
    def bootstrap_servers(self) -> str:
        """The address as HOST:PORT, for any Kafka client; it is the same over restarts."""
        return f"127.0.0.1:{self._port}"

    @property
    def schema_registry_url(self) -> str:
        """The address of the schema registry, the same over restarts; what it has is in the topic `_schemas`. It speaks
        plain HTTP, and asks for no login. Raises RuntimeError without `schema_registry=True` or before the start."""
        if self._registry is None:
            raise RuntimeError("there is no schema registry: start the broker with schema_registry=True")
        return self._registry.url

    def client_settings(self, style: ClientStyle = "oncelog") -> dict[str, Any]:
        """Everything that a client needs to connect, by the names of that client: `Producer(**settings)` of oncelog,
        aiokafka and kafka-python, `Producer(settings)` of confluent-kafka."""
        if self._secured is not None:
            return self._secured.client_settings(self.bootstrap_servers, style)
        return {"bootstrap.servers" if style == "confluent-kafka" else "bootstrap_servers": self.bootstrap_servers}

    @_refused_there
    def topics(self) -> list[str]:
        """Return the names of all topics but Kafka's own, sorted."""
        return self._asking().list_topics()

    @_refused_there
    def create_topic(
        self, name: str | None = None, *, partitions: int | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, of a name that no other has if none is given; returns the name. Raises KafkaError, as if it
        exists already."""
        from oncelog.client import NewTopic

        name = name or f"topic-{uuid4().hex[:12]}"
        count = partitions if partitions is not None else int(self._config["num.partitions"])
        self._asking().create_topics(NewTopic(name, count, configs=config or {}))
        return name

    @_refused_there
    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: "Headers" = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> "RecordMetadata":
        """Write one record, and wait until it is durable. Its timestamp is the broker's time, `clock.now_ms()`, unless
        it is given. Raises KafkaError."""
        from oncelog.client.blocking.clients import Producer

        stamp_ms = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        with Producer(**self._own_settings) as producer:
            return producer.send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=stamp_ms)

    @_refused_there
    def records(
        self, topic: str, *, isolation: "IsolationLevel" = "read_committed", partition: int | None = None
    ) -> "list[StoredRecord]":
        """Return what a reader of this isolation level can read now, of one partition or of all, ordered by partition
        and offset; each with its `text` and `json()`. Never waits for an open transaction. Raises UnknownTopic."""
        from oncelog.client.blocking.clients import Consumer
        from oncelog.testing.stored import StoredRecord

        with Consumer(
            **self._own_settings,
            isolation_level=isolation,
            auto_offset_reset="earliest",
        ) as consumer:
            every = consumer.partitions_for(topic)
            read = [each for each in every if partition is None or each.partition == partition]
            ends = consumer.end_offsets(read)
            consumer.assign(read)
            found: list[StoredRecord] = []
            while any(consumer.position(each) < ends[each] for each in read):
                found += map(StoredRecord._make, consumer.poll(_POLL_MS))
        kept = [record for record in found if record.offset < ends[record.topic_partition]]
        return sorted(kept, key=lambda record: (record.partition, record.offset))

    @_refused_there
    def wait_for_records(
        self,
        topic: str,
        count: int,
        timeout_s: float = WAIT_S,
        *,
        isolation: "IsolationLevel" = "read_committed",
        partition: int | None = None,
    ) -> "list[StoredRecord]":
        """Wait until that many records can be read, and return all that can be, as `records`. The topic may come later,
        too. Raises TimeoutError, which says how many there are and whether others are in open transactions."""
        found: list[StoredRecord] = []

        def look() -> "list[StoredRecord] | None":
            found[:] = self._records_if_any(topic, isolation, partition)
            return found if len(found) >= count else None

        def what_lacks() -> str:
            text = f"{len(found)} of {count} records can be read in {topic!r}"
            if isolation == "read_committed":
                others = len(self._records_if_any(topic, "read_uncommitted", partition)) - len(found)
                text += f"; {others} more are in open or aborted transactions" if others else ""
            return text

        return wait_until(look, timeout_s, what_lacks)

    @_refused_there
    def wait_for_committed(
        self, group_id: str, up_to: "str | Mapping[TopicPartition, int]", timeout_s: float = WAIT_S
    ) -> "dict[TopicPartition, int]":
        """Wait until a group has committed these offsets or later ones; with a topic's name, until it has committed
        past every record that can be read there, and there is one. Returns its offsets, as `committed`. Raises
        TimeoutError, which says where the group is."""
        behind: dict[TopicPartition, str] = {}

        def look() -> "dict[TopicPartition, int] | None":
            if isinstance(up_to, str):
                # Not the end of the log: some clients commit past markers, others only past records.
                read = self._records_if_any(up_to, "read_committed", None)
                wanted = {record.topic_partition: record.offset + 1 for record in read}
            else:
                wanted = dict(up_to)
            committed = self.committed(group_id)
            behind.clear()
            for place, offset in sorted(wanted.items()):
                if committed.get(place, -1) < offset:
                    behind[place] = (
                        f"{place.topic}-{place.partition} at {committed.get(place, 'no offset')} of {offset}"
                    )
            return committed if wanted and not behind else None

        def what_lacks() -> str:
            where = ", ".join(behind.values()) or f"no record can be read in {up_to!r}"
            return f"the group {group_id!r} has not committed everything: {where}"

        return wait_until(look, timeout_s, what_lacks)

    @_refused_there
    def committed(self, group_id: str) -> "dict[TopicPartition, int]":
        """Return the offsets that a group has committed, by partition; those in open transactions are not among
        them."""
        found = self._asking().list_group_offsets(group_id, require_stable=False)
        return {place: committed.offset for place, committed in found.items()}

    @_refused_there
    def transactions(self) -> "list[TransactionDescription]":
        """Return every transactional id with its state ("Ongoing", "CompleteCommit" and the like), ordered by id."""
        admin = self._asking()
        return [admin.describe_transaction(each) for each in sorted(admin.list_transactions())]

    @_refused_there
    def last_stable_offset(self, topic: str, partition: int = 0) -> int:
        """Return where read_committed ends: before the first record of the oldest open transaction. Raises
        UnknownTopic."""
        from oncelog.client import TopicPartition

        place = TopicPartition(topic, partition)
        found = self._asking().list_offsets([place], isolation_level="read_committed")
        return found[place].offset

    @cached_property
    def faults(self) -> "FaultClient":
        """Fault injection into the broker (docs/operate/fault-injection.md): hold, drop, fail or repeat requests and
        markers. Its rules end with the run."""
        from oncelog.faults import FaultClient

        port = self._admin_port()
        return FaultClient(port.address, token=port.token)

    def findings(self) -> "list[Finding]":
        """Return what clients did wrong since the start (docs/operate/witness.md), wrong before perhaps wanted; not
        what this object itself did. Raises WitnessUnavailable if `config` has turned it off."""
        from oncelog.witness import ask_witness

        port = self._admin_port()
        return list(ask_witness(port.address, token=port.token).findings)

    # -- inside

    def _new_disk(self) -> MemoryDisk | Path | Tables:
        if self._storage == "memory":
            return MemoryDisk(is_watched=False)
        if self._storage == "disk":
            return Path(tempfile.mkdtemp(prefix="oncelog-")) / "data"
        if isinstance(self._storage, str):
            schema = self._config.get("oncelog.postgres.schema")
            directory = Path(tempfile.mkdtemp(prefix="oncelog-")) / "data"
            return Tables(self._storage, None if schema is None else str(schema), directory)
        return Path(self._storage)

    @property
    def _own_settings(self) -> dict[str, Any]:
        """The settings by which this object itself connects. Raises RuntimeError unless the broker runs."""
        addresses = self._running().addresses
        if self._secured is None:
            settings: dict[str, Any] = {"bootstrap_servers": addresses[0]}
        else:
            settings = self._secured.own_settings(addresses[1])
        return {**settings, "client_id": _OWN_CLIENT_ID}

    def _load_registry(self) -> None:
        from oncelog.testing.schema_registry import SchemaRegistry

        if self._registry is None:
            self._registry = SchemaRegistry(self)
        self._registry.load()

    def _make_user(self, secured: Secured, mechanism: "ScramMechanism") -> None:
        from oncelog.client import UserScramCredentialUpsertion

        admin = self._asking()
        if not admin.describe_user_scram_credentials(USER):
            admin.alter_user_scram_credentials(UserScramCredentialUpsertion(USER, secured.password, mechanism, 4_096))

    def _running(self) -> Life:
        if self._life is None:
            if self._disk is None:
                raise RuntimeError("the broker is not running: start it, or use it in a `with` block")
            ended = "killed" if self._has_crashed else "stopped"
            raise RuntimeError(f"the broker was {ended}: restart() starts it again, on the same port and data")
        return self._life

    def _check_port(self) -> None:
        """Raise StartError if another program has the port."""
        try:
            socket.create_server(("127.0.0.1", self._port)).close()
        except OSError as error:
            raise StartError(
                f"the broker cannot have port {self._port} ({os.strerror(error.errno or 0)}): end what listens there, "
                "or leave out `port=`, and the broker picks a free one"
            ) from None

    def _admin_port(self) -> "HttpPort":
        with self._lock:
            return self._running().admin_port()

    def _asking(self) -> "Admin":
        """Return the one connection for all calls of a run."""
        settings = self._own_settings
        with self._lock:
            if self._admin is None:
                from oncelog.client.blocking.clients import Admin

                admin = Admin(**settings)
                admin.__enter__()
                self._admin = admin
            return self._admin

    def _records_if_any(self, topic: str, isolation: "IsolationLevel", partition: int | None) -> "list[StoredRecord]":
        """Return none of a topic that does not exist; a client would wait a second for it."""
        if topic not in self._asking().list_topics(include_internal=True):
            return []
        return self.records(topic, isolation=isolation, partition=partition)

    def _end(self, how: Literal["stop", "kill"]) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.__exit__(None, None, None)
        self.__dict__.pop("faults", None)  # each run has an address of its own
        life, self._life = self._life, None
        if life is None:
            return
        self._has_crashed = how == "kill"
        if how == "stop":
            life.stop()
        else:
            life.kill()
        if isinstance(life, ThreadLife):
            self._disk = life.disk


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
