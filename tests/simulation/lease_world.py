"""The lease alone, among several nodes in virtual time: thousands of take-overs for a few of the whole broker.

Owns: the time of each node, and what happens to it and to its connections. Judged in each millisecond is what
`pair_world` judges with brokers:
- I28: a node that takes the lease for its own, so that it would answer a read, has it, and was not deposed before: not
  even where the database has gone back to the time of before, and has lost that. What a leader knew of its lease before
  the database went back it counts on, for the rest of that time.
- I30: a leader that is well, and has been for a while, is not deposed.
"""

from collections import Counter
from contextlib import suppress
from random import Random

from oncelog.broker.storage.shared.lease import LeaseKeeper, LeaseTerms, take_lease
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import KeepPlace, TakenLease
from oncelog.broker.system.ending import EndingScheduler
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Slices
from tests.fakes.budget import names_its_seed
from tests.fakes.tables import KEEPALIVE_MS, FakeTables
from tests.fakes.virtual_time import VirtualTime
from tests.history.auditor import HistoryError
from tests.simulation.pair_tables import ServerClock, WatchedDatabase

_RATES = ((1.0,), (0.9, 1.1))
_WELL_MS = 3_000
_EPOCH_MS = 10**9
"""A start of the database's clock that is far from the value that stands for "given back"."""
_CUT_SHARE = 0.05
_AGAIN_MS = (300, 1_000, 2_000)
"""The pauses between one restore and the next of the same trouble."""
_LATE_MS = 2_000
_STARTS_MS = (0, 100, 1_000, 3_000)
_LEASES_MS = (1_000, 2_000, 10_000)
_PAUSES_MS = (20, 150, 300, 650, 750, 1_500, 4_000)
_OUTAGES_MS = (0, 30, 150, 400, 700, 1_000, 3_000)


class Candidate:
    """It takes the lease when it is free, keeps it, and begins again once it has lost it."""

    def __init__(self, world: "LeaseWorld", node_id: int) -> None:
        self._world = world
        self.node_id = node_id
        self.rate = world.random.choice(world.rates)
        self._owed_ms = 0.0
        self._slept_ms = 0
        self.is_standing_still = False
        self.is_away = False
        self.begin()

    def begin(self) -> None:
        """A process starts."""
        world = self._world
        world.starts += 1
        self.time = VirtualTime()
        self.time.leap(world.random.randrange(10_000))
        self._scheduler = EndingScheduler(self.time)
        self.tables = FakeTables(
            *(world.database, world.server, world.server_clock, Random(world.random.random())),
            cut_share=_CUT_SHARE,
            to_broker=self.time.call_soon,
        )
        self.tables.is_away = self.is_away
        self._statements = Statements(self.tables, self._scheduler, self.time)
        self.is_standing_still, self._slept_ms = False, 0
        self._take()

    def _take(self) -> None:
        world = self._world
        world.starts += 1
        owner = f"{self.node_id} {world.starts}"
        self.terms = LeaseTerms(owner, world.lease_ms, node_id=self.node_id, random=world.jumps.random)
        self.keeper: LeaseKeeper | None = None
        taking = take_lease(self._statements, self.time, self._scheduler, self.terms)
        Slices(self._scheduler).run_own(taking).then(self._on_taken)

    def _on_taken(self, taken: Completion[TakenLease]) -> None:
        self.epoch = taken.result().epoch
        keeper = LeaseKeeper(self._statements, self._scheduler, self.time, taken.result(), self.terms)
        self.keeper = keeper
        keeper.watch(lambda _: self._take())
        if taken.result().is_elsewhere:
            self._scheduler.call_later(self._world.jumps.choice(_STARTS_MS), lambda: self._keep_place(keeper))

    def _keep_place(self, keeper: LeaseKeeper) -> None:
        """Record the keeper's place, as a node does once it has started."""
        if self.keeper is keeper:
            self._statements.write(KeepPlace(self.epoch, keeper.place))

    def pass_time(self) -> None:
        self._owed_ms += self.rate
        whole_ms = int(self._owed_ms)
        self._owed_ms -= whole_ms
        if self.is_standing_still:
            self._slept_ms += whole_ms
        else:
            self.time.advance(whole_ms)

    def go_on(self) -> None:
        self.is_standing_still = False
        slept_ms, self._slept_ms = self._slept_ms, 0
        self.time.leap(slept_ms)

    def stay_away(self, is_away: bool) -> None:
        self.is_away = self.tables.is_away = is_away
        if is_away:
            self.tables.cut_all()

    def end(self) -> None:
        self._scheduler.end()
        self.tables.cut_all()
        self.keeper = None


class LeaseWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.rates = self.random.choice(_RATES)
        self.server = VirtualTime()
        self.server_clock = ServerClock(self.server)
        self.server_clock.skew_ms = _EPOCH_MS
        self.database = WatchedDatabase(on_taken=self._on_taken)
        self.database.tick = self.server.monotonic_ms
        self.database.note()
        self._deposed: set[LeaseKeeper] = set()
        self._forgotten: dict[LeaseKeeper, int] = {}
        """Keepers whose lease was lost when the database went back, and until when each may rely on it by the clock of
        its own node: the answers that are on their way still count.
        """
        self.jumps = Random(seed)
        self.lease_ms = self.random.choice(_LEASES_MS)
        self.starts = 0
        self.counts: Counter[str] = Counter()
        self._well_from_ms: Counter[int] = Counter()
        self.nodes = [Candidate(self, node_id) for node_id in range(1, self.random.choice([3, 3, 4]))]

    @names_its_seed
    def run(self, duration_ms: int) -> Counter[str]:
        self._trouble()
        for _ in range(duration_ms):
            self.server.advance(1)
            for node in self.nodes:
                node.pass_time()
                if node.keeper is None or node.is_standing_still:
                    continue
                if not node.keeper.is_ours or node.time.monotonic_ms() >= self._forgotten.get(node.keeper, 0):
                    self._forgotten.pop(node.keeper, None)
                if node.keeper.is_ours and node.keeper not in self._forgotten:
                    self._judge(node)
        return self.counts

    def _judge(self, node: Candidate) -> None:
        self.counts["led_ms"] += 1
        if node.keeper in self._deposed:
            raise HistoryError(
                f"I28, node {node.node_id} has the lease in epoch {node.epoch}, and another has had it since"
            )
        if self.database.epoch > node.epoch:
            raise HistoryError(
                f"I28, no read is answered by a node later than its lease: node {node.node_id} has it in epoch "
                f"{node.epoch} for {node.keeper and node.keeper.left_ms} ms, and {self.database.epoch} has begun"
            )

    def _on_taken(self, database: WatchedDatabase) -> None:
        self.counts["take_overs"] += 1
        self._deposed.update(node.keeper for node in self.nodes if node.keeper is not None)
        now_ms = self.server.monotonic_ms()
        holder = [node for node in self.nodes if node.terms.owner == database.owner]
        if holder and now_ms >= self._well_from_ms[database.node_id]:
            raise HistoryError(f"I30, nobody deposes a leader that is well: node {database.node_id}, at {now_ms} ms")

    def _trouble(self) -> None:
        self.server.call_later(self.random.choice([100, 400, 1_000, 3_000]), self._trouble)
        leading = [node for node in self.nodes if node.keeper is not None]
        node = self.random.choice(leading if leading and self.random.random() < 0.6 else self.nodes)
        troubles = [
            self._kill,
            self._stop,
            self._pause,
            self._cut,
            self._cut_all,
            self._silence,
            self._lose_the_lock,
            self._drop_packets,
            self._restore,
        ]
        self.random.choice([*troubles, self._set_the_clock])(node)

    def _excuse(self, node: Candidate, for_ms: int) -> None:
        self._well_from_ms[node.node_id] = max(
            self._well_from_ms[node.node_id], self.server.monotonic_ms() + for_ms + _WELL_MS
        )

    def _kill(self, node: Candidate) -> None:
        self._excuse(node, 0)
        node.end()
        node.begin()

    def _stop(self, node: Candidate) -> None:
        """A process gives the lease back, if the database hears it, and ends."""
        if node.keeper is not None and not node.is_standing_still:
            with suppress(OSError):
                node.keeper.give_back()
        self._kill(node)

    def _pause(self, node: Candidate) -> None:
        if not node.is_standing_still:
            for_ms, time = self.random.choice(_PAUSES_MS), node.time
            self._excuse(node, for_ms)
            node.is_standing_still = True
            self.server.call_later(for_ms, lambda: node.go_on() if node.time is time else None)

    def _cut(self, node: Candidate) -> None:
        for_ms = self.random.choice(_OUTAGES_MS)
        self._excuse(node, for_ms)
        node.stay_away(True)
        self.server.call_later(for_ms, lambda: node.stay_away(False))

    def _cut_all(self, _: Candidate) -> None:
        for_ms = self.random.choice(_OUTAGES_MS)
        for node in self.nodes:
            self._excuse(node, for_ms)
            node.stay_away(True)
            self.server.call_later(for_ms, lambda node=node: node.stay_away(False))  # type: ignore[misc]

    def _silence(self, node: Candidate) -> None:
        for_ms, tables = self.random.choice(_OUTAGES_MS), node.tables
        self._excuse(node, for_ms)
        tables.be_silent()
        if self.random.random() < 0.5:
            self.server.call_later(self.random.randint(0, for_ms), tables.cut_attendance)
        self.server.call_later(for_ms, tables.be_heard)

    def _lose_the_lock(self, node: Candidate) -> None:
        """Cut the connection that attends to the lease, once or several times. No cause for a take-over, as the next
        attempt comes in time.
        """
        for _ in range(self.random.choice([1, 1, 5])):
            self.server.call_later(self.random.randrange(1_500), node.tables.cut_attendance)

    def _drop_packets(self, node: Candidate) -> None:
        """Drop the packets of one connection. No cause for a take-over, unless another fault comes before it is
        noticed.
        """
        self._excuse(node, _LATE_MS if node.keeper is not None else KEEPALIVE_MS)
        node.tables.drop_packets(of_attendance=self.random.random() < 0.5)

    def _restore(self, node: Candidate) -> None:
        """The database goes back to before the newest lease was taken: a standby was promoted that lacks it. Or the
        same backup is put back once more."""
        if self.random.random() < 0.5:
            self.server.call_later(self.random.choice(_AGAIN_MS), lambda: self._restore(node))
        states, epoch = self.database.states, self.database.epoch
        if states[0].rows["epoch"] < epoch:
            self.counts["restores"] += 1
            for node in self.nodes:
                if node.keeper is not None:
                    until_ms = node.time.monotonic_ms() + min(self.lease_ms, node.terms.unattended_ms)
                    self._forgotten[node.keeper] = until_ms
                self._excuse(node, self.lease_ms)
                node.tables.cut_all()
            self.database.restore(sum(state.rows["epoch"] == epoch for state in states))
            for each in self.nodes:
                if self.random.random() < 0.3:
                    self._kill(each)

    def _set_the_clock(self, _: Candidate) -> None:
        """Set the database's clock forward or back."""
        self.server_clock.skew_ms += self.random.choice([-20_000, -1_000, 1_000, 20_000])
