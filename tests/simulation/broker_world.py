"""The whole broker in simulation: clients of every kind, a network and a disk with faults, kills and power cuts.

Owns: virtual time, and when the broker stops, also in the middle of a start. The network is broker_network's. The
clients' requests and responses become a history, which the auditor of tests/history judges by its invariants.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from errno import ENOSPC
from heapq import heappop, heappush
from itertools import count
from random import Random

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.clients.simulated import (
    GROUP,
    INPUT,
    LEGS,
    OUTPUT,
    STABLE_OFFSET,
    TABLE,
    TIMEOUT_MS,
    Session,
    end_of,
    feeds,
    fetch,
    processes,
    read,
    reads,
    transfers,
)
from tests.fakes import backup
from tests.fakes.broker import VirtualBroker
from tests.fakes.budget import names_its_seed
from tests.fakes.virtual_time import VirtualTime
from tests.history.auditor import HistoryError, audit, tally
from tests.history.events import (
    FINAL,
    NEVER,
    Bounds,
    History,
    Leading,
    Look,
    OffsetFetch,
    Partition,
    Poll,
    Restart,
    States,
)
from tests.history.log_reader import batches_of
from tests.history.recorder import Recorder
from tests.simulation.broker_guardian import guards
from tests.simulation.broker_handovers import Handovers
from tests.simulation.broker_janitor import makes_again, tidies
from tests.simulation.broker_looks import PURGED, compares, purges
from tests.simulation.broker_members import Member
from tests.simulation.broker_network import Client, Network
from tests.simulation.broker_states import COORDINATOR_PARTITIONS, ends_at_a_start, log_of, state_of, steps_of
from tests.simulation.broker_tables import SETTINGS as COMPACTION_SETTINGS
from tests.simulation.broker_tables import WatchedTable
from tests.simulation.broker_warden import GUARDED, Visitor, changes_rules
from tests.simulation.broker_warden import SETTINGS as RIGHTS_SETTINGS
from tests.simulation.log_auditor import read_undamaged

_SETTINGS = (
    *(f"{key}.num.partitions={COORDINATOR_PARTITIONS}" for key in ("offsets.topic", "transaction.state.log")),
    "group.initial.rebalance.delay.ms=0",
    *COMPACTION_SETTINGS,
    *RIGHTS_SETTINGS,
    "metadata.log.max.record.bytes.between.snapshots=600",
    "oncelog.journal.file.bytes=8192",
)
_READ = (*LEGS, INPUT, OUTPUT)
PARTITIONS = (*_READ, PURGED)
_TOPICS_OF_ONE = (INPUT[0], OUTPUT[0], TABLE[0], PURGED[0], *GUARDED)
_COORDINATORS = ("__consumer_offsets", "__transaction_state")
_TABLES = (TABLE, *((topic, index) for topic in _COORDINATORS for index in range(COORDINATOR_PARTITIONS)))
_TIMEOUTS_MS = 2 * TIMEOUT_MS + 2_000
_CALM_MS = 60_000
_LAST_MARKERS_MS = 10_000
"""A client that has ended a transaction may be done this long before the markers are written."""
_DAY_MS = 86_400_000
_COLD_SHARE = 0.3
"""The share of reads of earlier lives' records that miss the page cache."""
_SKEWS_MS = (-20 * _DAY_MS, -_DAY_MS, -3_600_000, -5_000, 0, 5_000, 3_600_000, _DAY_MS)
"""How far the wall clock is off. Never so far ahead that ids and offsets expire: the clock's own world has that."""


@dataclass
class Tally:
    commits: int = 0
    aborts: int = 0
    unknowns: int = 0
    sends: int = 0
    reads: int = 0
    generations: int = 0
    group_commits: int = 0
    stops: int = 0
    power_cuts: int = 0
    shortages: int = 0
    lost_requests: int = 0
    lost_answers: int = 0
    cut_frames: int = 0
    late_requests: int = 0
    double_requests: int = 0
    clock_jumps: int = 0
    handovers: int = 0
    looks_at_compaction: int = 0
    unreadable: int = 0
    full_starts: int = 0
    admitted: int = 0
    refused: int = 0
    backups: int = 0


class BrokerWorld:
    def __init__(self, seed: int, *, from_backups: bool = False) -> None:
        """`from_backups`: what follows a kill starts from a backup that was taken in that moment."""
        self.seed = seed
        self._from_backups = from_backups
        self.random = Random(seed)
        self._more = Random(-seed - 1)
        self._mounts = Random(seed + 2**40)
        self.transaction_version = self.random.choice([1, 2])
        self.tally = self._nothing()
        self._skew_ms = 0
        self._clock_jumps = self.random.random() < 0.5
        # A transaction that times out while the broker is down is ended at the next start. Markers have the wall
        # clock's time: where that jumps, the clock's own world judges timeouts.
        slack_ms = NEVER if self._clock_jumps else 5_000
        self.recorder = Recorder(History(pipelines=[(GROUP, INPUT, OUTPUT)], slack_ms=slack_ms))
        self._settings = (
            *_SETTINGS,
            f"oncelog.feature.transaction.version={self.transaction_version}",
            f"oncelog.flush.loop.appends={self._more.choice([0, 1, 1, 64])}",
        )
        self.broker = self._begun(seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._now_ms = 0
        self._starts = seed
        self._clients: list[Client] = []
        self._bounds: dict[Partition, tuple[int, int, int]] = {}
        self._leading: dict[Partition, tuple[int, int]] = {}
        is_two = self.transaction_version == 2
        self.handovers = Handovers(self.random)
        self.network = self._networked(may_be_late=is_two)
        self._tables = [WatchedTable(partition) for partition in _TABLES]
        self._visitor = Visitor(Random(-seed - 2))
        for topic, partitions in ((LEGS[0][0], len(LEGS)), *((name, 1) for name in _TOPICS_OF_ONE)):
            wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
            if topic == TABLE[0]:
                wanted.configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)
            while self.broker.ask(request, 5).topics[0].error_code:  # the disk is full for a while
                self.broker.time.advance(100)

    def _nothing(self) -> Tally:
        return Tally()

    def _begun(self, seed: int) -> VirtualBroker:
        """The first broker of this life."""
        return VirtualBroker(*self._settings, seed=seed)

    def _networked(self, *, may_be_late: bool) -> Network:
        return Network(self.random, self._later, self._asked, may_be_late=may_be_late)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _later(self, delay_ms: int, function: Callable[[], None]) -> None:
        heappush(self._events, (self._now_ms + delay_ms, next(self._order), function))

    def _run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            at_ms, _, function = heappop(self._events)
            self._pass(at_ms - self._now_ms)
            self._now_ms = at_ms
            self._guarded(function)
            self.network.collect()
        self._pass(end_ms - self._now_ms)
        self._now_ms = end_ms

    def _pass(self, delay_ms: int) -> None:
        """Small steps: an answer is seen when it is there, not when the next event is."""
        while delay_ms > 0:
            step = min(delay_ms, 25)
            delay_ms -= step
            self._guarded(lambda step_ms=step: self._turn(step_ms))  # type: ignore[misc]
            self.network.collect()

    def _turn(self, step_ms: int) -> None:
        self.broker.time.advance(step_ms)
        self.broker.broker.transactions.step()
        with self._descriptors():
            for table in self._tables:
                table.note(self.broker)
        self.broker.broker.logs.step()
        with self._descriptors():
            self._look()
            self._visitor.maybe_ask(self.broker)

    @contextmanager
    def _descriptors(self) -> Iterator[None]:
        """Let observers open files during a shortage of descriptors."""
        disk = self.broker.disk
        lacking, disk.lacks_descriptor = disk.lacks_descriptor, lambda path: False
        yield
        disk.lacks_descriptor = lacking

    def _look(self) -> None:
        """Note the bounds of each partition when they have moved, and with which epoch each start leads it."""
        for partition in PARTITIONS:
            log = self._log_of(partition)
            if log is None:
                continue
            bounds = log.log_start_offset, log.last_stable_offset, log.high_watermark
            # Until the answered offset is reached, readers wait.
            is_told = log.answered_offset <= log.high_watermark or partition not in self._bounds
            if is_told and self._bounds.get(partition) != bounds:
                self._bounds[partition] = bounds
                self.recorder.history.bounds.append(Bounds(self.recorder.now(), partition, *bounds))
            leading = log.leader_epoch, self._start(partition)
            if log.is_led and self._leading.get(partition) != leading:
                self._leading[partition] = leading
                self.recorder.history.leading.append(Leading(self.recorder.now(), partition, *leading))
        self._note_look()
        for table in self._tables:
            table.look(self.broker, self.random)

    def _start(self, partition: Partition) -> int:
        """The number of the start since which this node leads."""
        return len(self.recorder.history.restarts)

    def _note_look(self) -> None:
        """Record the high watermarks that readers see in this turn."""
        self.recorder.history.looks.append(Look(tuple((each, self._bounds[each][2]) for each in _READ)))

    def _log_of(self, partition: Partition) -> PartitionLog | None:
        """Return the partition's log, or None while another node leads it."""
        return log_of(self.broker, partition)

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except PowerCut:
            if self._more.random() < 0.5:
                self.tally.stops += 1
                self._restart("kill at work", self.broker.disk.kill())
            else:
                self.tally.power_cuts += 1
                self._restart("power cut", self._without_power(self.broker.disk))

    def _asked(self) -> VirtualBroker:
        """A request arrives."""
        self.handovers.on_request(self.broker)
        with self._descriptors():
            for table in self._tables:
                table.note(self.broker)  # the request may delete it
        return self.broker

    def _hand_over(self) -> None:
        if not self.network.is_calm:
            self.handovers.come_due()
            self._later(self.random.choice([200, 700, 2_000]), self._hand_over)

    def _take_away(self) -> None:
        """Do nothing: a node with files on its disk leads all partitions."""

    # --- stops --------------------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        if self.network.is_calm:
            return
        self._later(self.random.choice([100, 400, 1_500]), self._trouble)
        if self._clock_jumps and self.random.random() < 0.5:
            self._set_the_clock()
        kind = self.random.choice(["kill", "crash", "power cut", "clean", "descriptors"])
        if kind == "power cut":
            # It goes in the middle of one of the next operations of the disk.
            self.broker.disk.operations_left = self.random.randint(0, 30)
            return
        if kind == "descriptors":
            self._lack_descriptors()
            return
        self.tally.stops += 1
        if kind == "crash":
            self._restart(kind, self._without_power(self.broker.disk))
            return
        if kind == "clean":
            self.broker.broker.logs.close()
        self._restart(kind, self._backed_up() if kind == "kill" else self.broker.disk.kill())

    def _backed_up(self) -> MemoryDisk:
        disk, logs = self.broker.disk, self.broker.broker.logs
        if not self._from_backups or self.broker.disk_failures:
            return disk.kill()
        disk.operations_left = None
        with self._descriptors():
            sizes = backup.taken(disk, logs.store, logs.logs)
            if sizes is None:
                return disk.kill()
            self.tally.backups += 1
            return backup.copied(disk, sizes)

    def _set_the_clock(self) -> None:
        self.tally.clock_jumps += 1
        skew_ms = self.random.choice(_SKEWS_MS)
        self.broker.time.wall_offset_ms += skew_ms - self._skew_ms
        self._skew_ms = skew_ms

    def _lack_descriptors(self) -> None:
        """Refuse a share of the operations that open a file, for a while; nothing may stop because of it."""
        self.tally.shortages += 1
        disk, share = self.broker.disk, self.random.choice([0.1, 0.5, 1.0])
        self.network.may_be_refused = True
        disk.lacks_descriptor = lambda path: self.random.random() < share
        self._later(self.random.choice([50, 300, 1_000]), lambda: self._end_shortage(disk))

    def _end_shortage(self, disk: MemoryDisk) -> None:
        disk.lacks_descriptor = lambda path: False
        if self.broker.disk_failures:
            raise HistoryError(f"too many open files are no failure of the disk: {self.broker.disk_failures}")

    def _without_power(self, disk: MemoryDisk) -> MemoryDisk:
        """Return the disk after a power cut, or after its file system was away for a while, which loses as much."""
        self.recorder.history.power_cuts.append(self.recorder.tick())
        return disk.remounted(self._seeded()) if self._mounts.random() < 0.3 else disk.crash(self._seeded())

    def _restart(self, kind: str, disk: MemoryDisk) -> None:
        """Start on what is left; the power may go again in the middle of the start."""
        self.network.on_restart()
        self._leave()
        self.recorder.history.restarts.append(Restart(self.recorder.tick(), kind))
        wall_ms = self.broker.time.wall_ms()
        # By a clock that was set forward a transaction may be over its time at the start, and is ended there.
        is_same = kind == "kill" and not ends_at_a_start(self.broker, wall_ms)
        self.handovers.on_restart()
        before = state_of(self.broker, (*PARTITIONS, TABLE), GROUP) if is_same else None
        if self._more.random() < 0.2:
            power_cuts = len(self.recorder.history.power_cuts)
            disk = self._start_without_a_file(disk, wall_ms)
            if len(self.recorder.history.power_cuts) > power_cuts:
                before = None
        while True:
            if self.random.random() < 0.2:
                disk.operations_left = self.random.randint(0, 20)
            try:
                if self._more.random() < 0.15:
                    self._lack_room_for_the_journal(disk)
                self.broker = self._started(disk, wall_ms)
                break
            except PowerCut:
                self.tally.power_cuts += 1
                before = None  # what was not synced may be gone
                disk = self._without_power(disk)
        self.broker.disk.operations_left = None
        for table in self._tables:
            table.on_restart()
        self._visitor.on_restart()
        self._look()
        self._compare(before, wall_ms)

    def _start_without_a_file(self, disk: MemoryDisk, wall_ms: int) -> MemoryDisk:
        """A short life in which one file of a log cannot be read: its partition is offline, or the start fails."""
        self.tally.unreadable += 1
        logs = [path for path in sorted(disk.files) if path.endswith(".log")]
        in_flight = [path for path in logs if disk.files[path].data != disk.files[path].synced]
        disk.refused = {self._more.choice(in_flight or logs)}
        with suppress(StartError):
            disk = self._started(disk, wall_ms).disk
        disk = self._without_power(disk) if self._more.random() < 0.3 else disk.kill()
        disk.refused.clear()
        return disk

    def _lack_room_for_the_journal(self, disk: MemoryDisk) -> None:
        """Let writes to the journal fail for lack of space for a while; commits sync the files meanwhile."""
        self.tally.full_starts += 1
        disk.append_error = lambda path: OSError(ENOSPC, "No space left on device", path) if "journal" in path else None
        self._later(self._more.choice([0, 600, 2_000]), lambda: setattr(disk, "append_error", None))
        if self._more.random() < 0.7:
            operations = self._more.randint(0, 100)
            self._later(self._more.randint(10, 600), lambda: setattr(disk, "operations_left", operations))

    def _leave(self) -> None:
        """A round of compaction cleans up after itself: on the disk of before, which is gone."""
        self.broker.disk.operations_left = None
        if self.broker.broker.logs.store.cleaner is not None:
            self.broker.broker.logs.store.cleaner.stop()

    def _started(self, disk: MemoryDisk, wall_ms: int) -> VirtualBroker:
        self._starts += 1
        cold = Random(self._starts)
        disk.is_cold = lambda path, start, end: cold.random() < _COLD_SHARE
        return VirtualBroker(*self._settings, disk=disk, time=VirtualTime(wall_ms), seed=self._starts)

    def _compare(self, before: str | None, wall_ms: int) -> None:
        """Compare the state with that before the stop, and with that of another start on the same disk."""
        after = state_of(self.broker, (*PARTITIONS, TABLE), GROUP)
        if after is None:
            return
        states = self.recorder.history.states
        if before is not None:
            states.append(States(self.recorder.tick(), before, after))
        if self.random.random() < 0.2:
            again = state_of(self._started(self.broker.disk.kill(), wall_ms), (*PARTITIONS, TABLE), GROUP)
            states.append(States(self.recorder.tick(), after, again or "", is_second_recovery=True))

    def _seeded(self) -> Random:
        return Random(self.random.randrange(2**30))

    # --- a life -------------------------------------------------------------------------------------------------------

    @names_its_seed
    def run(self, duration_ms: int = 12_000) -> Tally:
        is_two = self.transaction_version == 2
        for partition in _READ:
            self._readers(partition)
        self._join(Client(feeds(self.recorder, self.random, 30), "feeder"))
        self._join(Client(tidies(Random(self.random.random()), 6), "janitor"))
        again = makes_again(Random(self.random.random()), 8, is_exact=not is_two)
        self._join(Client(again, "remaker"))
        self._join(Client(guards(Random(self.random.random()), 6), "guardian"))
        self._join(Client(changes_rules(Random(self.random.random()), 8, is_exact=not is_two), "warden"))
        self._join(Client(purges(self.recorder, self.random, 30), "purger"))
        self._join(Client(compares(self.recorder, Random(self.random.random()), LEGS, 60), "comparer"))
        self._incarnate()
        self._trouble()
        self._hand_over()
        self._take_away()
        self._run_until(duration_ms)
        self.network.is_calm = True
        self.broker.disk.operations_left = None
        self._settle(duration_ms)
        self._read_everything()
        history = self.recorder.history
        history.at_work_at_the_end += [client.name for client in self._clients if not client.is_done]
        audit(history)
        counts = tally(history)
        found = {
            name: counts[name]
            for name in ("commits", "aborts", "unknowns", "sends", "reads", "generations", "group_commits")
        }
        self.tally.admitted, self.tally.refused = self._visitor.admitted_count, self._visitor.refused_count
        self.tally.handovers = self.handovers.count
        self.tally.looks_at_compaction = sum(table.looks for table in self._tables)
        for name, value in {**found, **asdict(self.network.losses)}.items():
            setattr(self.tally, name, value)
        return self.tally

    def _settle(self, start_ms: int) -> None:
        """Run until every client is done, every transaction that was left open has timed out, and the last markers are
        written; give up after a limit.
        """
        end_ms = start_ms + _TIMEOUTS_MS
        self._run_until(end_ms)
        while end_ms < start_ms + _CALM_MS and not all(client.is_done for client in self._clients):
            end_ms += 1_000
            self._run_until(end_ms)
        end_ms = self._now_ms + _LAST_MARKERS_MS
        while self._now_ms < end_ms and not all(map(self._is_stable, _READ)):
            self._run_until(self._now_ms + 1_000)

    def _is_stable(self, partition: Partition) -> bool:
        log = log_of(self.broker, partition)
        return log.last_stable_offset == log.log_end_offset

    def _join(self, client: Client) -> None:
        self._clients.append(client)
        self.network.join(client)

    def _readers(self, partition: Partition) -> None:
        for is_committed in (True, False):
            life = reads(self.recorder, self.random, "follower", partition, is_committed=is_committed)
            self.network.join(Client(life, "follower"))

    def _incarnate(self) -> None:
        """New producers take the ids of older ones, which may still be at work."""
        for number in range(3):
            for incarnation in range(3):
                session = self._session(f"transfer-{number}", f"t{number}.{incarnation}")
                client = Client(transfers(session, 6), session.name)
                self._later(incarnation * self.random.randint(500, 3_000), lambda new=client: self._join(new))  # type: ignore[misc]
        for incarnation in range(3):
            session = self._session("processor", f"p.{incarnation}")
            client = Client(processes(session, 25), session.name)
            self._later(incarnation * self.random.randint(1_000, 4_000), lambda new=client: self._join(new))  # type: ignore[misc]

        for number in range(4):
            client = Client(Member(self.recorder, self.random).belongs(8), f"member-{number}")
            self._later(number * self.random.randint(0, 2_500), lambda new=client: self._join(new))  # type: ignore[misc]

    def _session(self, transactional_id: str, name: str) -> Session:
        random = Random(self.random.random())
        return Session(transactional_id, self.transaction_version, self.recorder, name, random, self._wall_ms)

    def _wall_ms(self) -> int:
        return self.broker.time.wall_ms()

    def _read_everything(self) -> None:
        """The last word: what readers get from the start, and what lies in the logs."""
        recorder, history = self.recorder, self.recorder.history
        for partition in _READ:
            log = log_of(self.broker, partition)
            for is_committed in (True, False):
                offset, end = 0, log.last_stable_offset if is_committed else log.high_watermark
                while offset < end:
                    span = recorder.asked()
                    answer = self.broker.ask(fetch(partition, offset, is_committed=is_committed), 11)
                    following = end_of(answer, offset)
                    found = Poll(span, FINAL, is_committed, partition, offset, following, tuple(read(answer, offset)))
                    recorder.begin(history.polls, found).done()
                    if following == offset:
                        break
                    offset = following
            batches = history.logs.setdefault(partition, [])
            offset = 0
            while offset < log.log_end_offset:
                batches += batches_of(read_undamaged(log, offset, 2**30, FetchIsolation.LOG_END).records)
                offset = batches[-1].last_offset + 1
        for table in self._tables:
            if table.partition[0] == "__transaction_state":
                history.steps += steps_of(table.written())
        fetching = OffsetFetch(recorder.asked(), GROUP, INPUT, -1)
        answer = self.broker.ask(STABLE_OFFSET, 7).topics[0].partitions[0]
        recorder.begin(history.offset_fetches, fetching).done(offset=answer.committed_offset)
        self._bounds.clear()
        self._look()
