"""Two or three nodes over one set of tables, in virtual time: one leads, the others stand by, and any may fail.

Owns: the time of each, and what happens to nodes: they are killed, stop, stand still, lose their machine, their
connections or one lock, have clocks that go wrong, and are asked to step down. Requests and responses of clients are
judged as in the other worlds; what several nodes must keep besides is judged here:
- I27: no round of an older epoch is behind a newer one in the journal.
- I28: no read is answered by a node later than its lease (`pair_network`).
- I29: transactions have one coordinator at a time.
- I30: a leader that is well, and has been for a while, is not deposed.
- I31: what a node that stands by knows of topics, users and epochs is what its leader had committed at some offset.
- I32: in the end every node names one leader, and the same topics.
- I33: a node that stands by names no leader that had ended before it was asked, as far as the database knew.
- I34: no node names itself as the leader later than its lease (`pair_network`).
- I35: an answer to Metadata that names the next leader does not list the one that was deposed for it, until that one is
  back; nor a node that has ended some seconds ago. Some clients stay with a node for as long as it is listed.
- I36: no node takes the lease of tables that a newer release has changed (`tests.fakes.tables`).
- I37: a node whose statements are cancelled waits as it would for an answer, and none says that the database lacks
  space.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from traceback import format_exception
from typing import Any
from uuid import UUID

from oncelog.broker.storage.sections import LogKey, decode_checked
from oncelog.broker.storage.shared.statements import Fenced
from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.broker.storage.shared.tables import NO_NODE, AppendRound, Unanswered
from oncelog.broker.succession.follower import MetadataFollower
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.message import Message
from oncelog.protocol.topics import TRANSACTION_STATE
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.broker import Reply
from tests.fakes.node import EXPECTED_ENDS, Arrival, Surroundings, VirtualNode, VirtualProcess
from tests.fakes.tables_broker import LateBroker
from tests.fakes.virtual_time import VirtualTime
from tests.history.auditor import HistoryError
from tests.history.events import Partition, Restart
from tests.simulation.broker_world import _SKEWS_MS, BrokerWorld, Tally
from tests.simulation.pair_network import PairNetwork
from tests.simulation.pair_tables import Committed, ServerClock, WatchedDatabase, records_of
from tests.simulation.shared_world import NotedTable

_CUT_SHARE = 0.01
_SLACK_MS = 40_000
"""A transaction that times out while no node leads is ended by the next leader, which may fail before it has."""
_WELL_MS = 3_000
"""The time after its last trouble from which a leader counts as well."""
_AGREED_MS = 20_000
_AGAIN_MS = (100, 500, 2_000, 5_000)
"""When a process that has ended is started again."""
_LISTED_MS = 5_000
"""How long after its end a node may be listed: others look twice a second, over connections that fail."""
_LATE_MS = (0, 20, 300)
"""When the database carries out what the leader of before had sent."""
_LEASES_MS = (3_000, 4_000, 10_000)


@dataclass
class PairTally(Tally):
    take_overs: int = 0
    given_back: int = 0
    kills: int = 0
    lost_machines: int = 0
    pauses: int = 0
    cuts: int = 0
    silences: int = 0
    lost_locks: int = 0
    steps_down: int = 0
    failed_starts: int = 0
    deposed: int = 0
    redirected: int = 0
    answers_of_standbys: int = 0
    standby_looks: int = 0
    named_leaders: int = 0
    listed_nodes: int = 0
    deposed_unlisted: int = 0
    cancels: int = 0
    upgrades: int = 0


class Leader(LateBroker):
    """The node that leads, whichever it is, for observers."""

    def __init__(self, step: Callable[[], None]) -> None:
        self._step = step
        self.disk = MemoryDisk()
        self.time = VirtualTime()
        self.is_there = False

    def follow(self, nodes: list[VirtualNode], epoch: int) -> None:
        serving = next((each.serving for each in nodes if each.serving and each.serving.epoch == epoch), None)
        self.is_there = serving is not None
        if serving is not None:
            self.time, self.broker, self.dispatcher = serving.time, serving.broker, serving.dispatcher

    def wait_for(self, reply: Reply) -> Reply:
        for _ in range(10_000):
            if reply.is_there:
                break
            self._step()
        return reply


class PairWorld(BrokerWorld):
    def __init__(self, seed: int) -> None:
        self._fate = Random(seed + 2**44)
        self.tally: PairTally
        self.broker: Leader
        self.network: PairNetwork
        self.database = WatchedDatabase()
        self.server = VirtualTime()
        self.server_clock = ServerClock(self.server)
        self._rates = self._fate.choice([(1.0,), (1.0,), (0.999, 1.0, 1.001)])
        self._well_from_ms: dict[int, int] = {}
        self._committed = Committed()
        self._followed: list[tuple[int, bytes]] = []
        """Rounds with something of the metadata log, and their numbers."""
        self._ends: list[tuple[int, int]] = []
        """Where the metadata log ended in each of them."""
        self._newest_round = (0, 0)
        self._coordinators: dict[LogKey, tuple[int, object]] = {}
        """The epoch and the connections over which each log's last records were added."""
        self._attended_ms: dict[int, int] = {}
        """When each node was seen last with the lease and a connection."""
        self._there_ms: dict[int, int] = {}
        """When the row of each node was seen last before its time was over."""
        self._renewed_us: dict[int, int] = {}
        """When each node last renewed its row, also if it has taken it away since."""
        self._deposed_us: dict[str, int] = {}
        """When the lease was taken from these starts, which had not given it back."""
        self._starting: set[int] = set()
        self._looked_at: dict[int, tuple[MetadataFollower, int]] = {}
        """The progress of each standby's replay when it was last compared."""
        super().__init__(seed)
        if not self._clock_jumps:
            self.recorder.history.slack_ms = _SLACK_MS
        self._tables = [NotedTable(table.partition) for table in self._tables]
        self._visitor.maybe_ask = lambda broker: None  # type: ignore[method-assign]

    def _nothing(self) -> PairTally:
        return PairTally()

    def _begun(self, seed: int) -> Leader:
        self.around = Surroundings(
            database=self.database,
            server=self.server,
            server_clock=self.server_clock,
            settings=self._settings,
            lease_ms=self._fate.choice(_LEASES_MS),
            cut_share=_CUT_SHARE,
            entropy=Random(seed),
            sizes=self._sizes,
        )
        self.nodes = [VirtualNode(self.around, node_id) for node_id in range(1, self._fate.choice([3, 3, 4]))]
        self.database.on_round, self.database.on_taken = self._on_round, self._on_taken
        for node in self.nodes:
            node.start(self.server.wall_ms())
        leader = Leader(self._step)
        while not leader.is_there:
            self._step()
            leader.follow(self.nodes, self.database.epoch)
        return leader

    def _networked(self, *, may_be_late: bool) -> PairNetwork:
        newest = lambda: self.database.epoch  # noqa: E731
        judges = self._judge_named, self._judge_listed
        return PairNetwork(self.random, self._later, self.nodes, newest, judges, may_be_late=may_be_late)

    def _sizes(self) -> SharedSizes:
        return SharedSizes(
            row_bytes=self._fate.choice([200, 1_000_000]),
            checkpoint_bytes=self._fate.choice([1_000, 10_000]),
            chunk_bytes=self._fate.choice([1_000, 1_000_000]),
            written_bytes=self._fate.choice([0, 2_000, 1_000_000]),
            fetched_bytes=self._fate.choice([0, 2_000, 1_000_000]),
        )

    # --- time ---------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self._note_attendance()
        self.server.advance(1)
        self._note_attendance()
        for node in self.nodes:
            node.pass_time(1)
            if node.process is not None:
                self._judge(node.process)
                if node.process.has_ended:
                    self._on_ended(node)

    def _note_attendance(self) -> None:
        database = self.database
        if database.until_us and database.attendant is not None and database.attendant[1] == database.epoch:
            self._attended_ms[database.node_id] = self.server.monotonic_ms()
        now_ms = self.server.monotonic_ms()
        for node_id, (_, until_us) in database.nodes.items():
            if until_us > now_ms * 1000:
                self._there_ms[node_id] = now_ms
            renewed_us = until_us - self.around.lease_ms * 1000
            self._renewed_us[node_id] = max(self._renewed_us.get(node_id, 0), renewed_us)

    def _judge(self, process: VirtualProcess) -> None:
        for failure in process.failures:
            raise HistoryError(f"nothing was lost, and node {process.node_id} finds: {failure}") from failure
        for problem in process.failed_starts:
            if not isinstance(problem.__cause__, Fenced | Unanswered):
                raise HistoryError(f"nothing was lost, and node {process.node_id} finds: {problem}") from problem
        self._judge_warnings(process)

    def _judge_warnings(self, process: VirtualProcess) -> None:
        for warning in process.warnings:
            if warning["event"] == "disk.full" or "canceling" in str(warning.get("error")):
                raise HistoryError(f"I37, what is cancelled says nothing of the database: {warning}")
        process.warnings.clear()

    def _turn(self, step_ms: int) -> None:
        for _ in range(step_ms):
            self._step()
            self.network.collect()
        self._follow_leader()

    def _follow_leader(self) -> None:
        self.broker.follow(self.nodes, self.database.epoch)
        self._look_at_standbys()
        if self.broker.is_there:
            for table in self._tables:
                table.note(self.broker)
            self._look()

    def _start(self, partition: Partition) -> int:
        return self.database.epoch

    # --- what several nodes must keep ---------------------------------------------------------------------------------

    def _on_round(self, statement: AppendRound) -> None:
        number, epoch = self._newest_round
        newest = max(self.database.journal)
        newest_epoch, _ = self.database.journal[newest]
        if newest > number and newest_epoch < epoch:
            raise HistoryError(
                f"I27, no round of an older epoch is behind a newer one: round {newest} of epoch {newest_epoch} "
                f"behind {number} of {epoch}"
            )
        self._newest_round = newest, newest_epoch
        body = b"".join(statement.bodies)
        if statement.is_followed:
            self._followed.append((newest, body))
            self._committed.on_round(body)
            self._ends.append((newest, self._committed.next_offset))
        for key, _ in decode_checked(memoryview(body)):
            if key[0] == self._transactions_id:
                self._judge_coordinator(key, statement.epoch, self.database.writer)

    def _judge_coordinator(self, key: LogKey, epoch: int, writer: object) -> None:
        before, before_writer = self._coordinators.get(key, (epoch, writer))
        if epoch < before or (epoch == before and writer is not before_writer):
            raise HistoryError(
                f"I29, transactions have one coordinator at a time: {key} got records of epoch {epoch} after those of "
                f"{before}{' by another node' if epoch == before else ''}"
            )
        self._coordinators[key] = epoch, writer

    @property
    def _transactions_id(self) -> UUID | None:
        topic = self._committed.state.topics.get(TRANSACTION_STATE)
        return None if topic is None else topic.topic_id

    def _on_taken(self, database: WatchedDatabase) -> None:
        node_id, until_us = database.node_id, database.until_us
        now_ms = self.server.monotonic_ms()
        self.tally.take_overs += 1
        self.tally.given_back += not until_us
        terms = [each.process.node.term.terms for each in self.nodes if each.process is not None]
        is_alive = any(each.owner == database.owner for each in terms)
        if until_us and is_alive and now_ms >= self._well_from_ms.get(node_id, 0):
            raise HistoryError(f"I30, nobody deposes a leader that is well: node {node_id}, at {now_ms} ms")
        self.tally.deposed += bool(until_us and is_alive)
        if until_us:
            self._deposed_us[database.owner] = now_ms * 1000
        self.server.call_later(self._fate.choice(_LATE_MS), self.database.wake_sleepers)
        self.recorder.history.power_cuts.append(self.recorder.tick())
        self.recorder.history.restarts.append(Restart(self.recorder.tick(), "take-over"))
        self.tally.stops += 1
        for table in self._tables_or_none:
            table.on_restart()

    @property
    def _tables_or_none(self) -> list[Any]:
        return getattr(self, "_tables", [])

    def _look_at_standbys(self) -> None:
        for node in self.nodes:
            of_process = None if node.process is None else node.process.node
            follower = None if of_process is None else of_process.standby.follower
            if of_process is None or follower is None or of_process.term.leader_epoch != self.database.epoch:
                continue
            number, next_offset = max((each for each in self._ends if each[0] <= follower.number), default=(0, 0))
            if follower.next_offset < next_offset:
                raise HistoryError(
                    f"I31, a node that stands by knows what was committed: node {node.node_id} has followed to round "
                    f"{follower.number}, and ends at offset {follower.next_offset} where round {number} has "
                    f"{next_offset}"
                )
            known = self._committed.known.get(follower.next_offset)
            looked_at = follower, follower.next_offset
            # It changes by what it replays alone, and to write it out costs more than the rest of a life.
            if known is None or self._looked_at.get(node.node_id) == looked_at:
                continue
            self._looked_at[node.node_id] = looked_at
            self.tally.standby_looks += 1
            if known != records_of(follower.state):
                raise HistoryError(
                    f"I31, a node that stands by knows what was committed: node {node.node_id} differs at offset "
                    f"{follower.next_offset} in {sorted(known ^ records_of(follower.state))}"
                )

    def _judge_named(self, arrival: Arrival, node_id: int) -> None:
        serving = arrival.serving
        assert serving is not None
        if serving.epoch >= 0 or node_id in (NO_NODE, serving.node_id):
            return
        self.tally.named_leaders += 1
        attended_ms = self._attended_ms.get(node_id, -1)
        if attended_ms < arrival.server_ms:
            raise HistoryError(
                f"I33, a node that stands by names no leader that had ended: node {serving.node_id} was asked at "
                f"{arrival.server_ms} ms, and names node {node_id}, which was last there at {attended_ms} ms"
            )

    def _judge_listed(self, arrival: Arrival, leader_node_id: int, node_ids: Sequence[int]) -> None:
        serving = arrival.serving
        assert serving is not None
        deposed = {self._node_id_of(owner) for owner in self._deposed_us} - {NO_NODE}
        self.tally.deposed_unlisted += bool(deposed - set(node_ids))
        for node_id in set(node_ids) - {serving.node_id, leader_node_id}:
            self.tally.listed_nodes += 1
            row, _ = self.database.nodes[node_id]
            deposed_us = self._deposed_us.get(row.owner, -1)
            is_renewed = self._renewed_us.get(node_id, 0) > deposed_us
            is_deposed = leader_node_id == self.database.node_id and deposed_us >= 0 and not is_renewed
            is_well = arrival.server_ms >= self._well_from_ms.get(serving.node_id, 0)
            there_ms = self._there_ms.get(node_id, -1)
            is_long_gone = is_well and there_ms + _LISTED_MS < arrival.server_ms
            if is_deposed or is_long_gone:
                raise HistoryError(
                    f"I35, a node that has ended is not listed beside its successor: node {serving.node_id} was asked "
                    f"at {arrival.server_ms} ms, and lists node {node_id}, which was there at {there_ms} ms "
                    f"and was deposed at {deposed_us / 1000} ms"
                )

    def _node_id_of(self, owner: str) -> int:
        return next((node_id for node_id, (row, _) in self.database.nodes.items() if row.owner == owner), NO_NODE)

    # --- troubles -----------------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        if self.network.is_calm:
            return
        self._later(self._fate.choice([300, 1_000, 2_500]), self._trouble)
        if self._clock_jumps and self._fate.random() < 0.5:
            self._set_the_clock()
        leading = [each for each in self.nodes if each.node_id == self.database.node_id]
        node = self._fate.choice(self.nodes if not leading or self._fate.random() < 0.4 else leading)
        self._fate.choice(
            [
                self._kill,
                self._kill,
                self._lose_the_machine,
                self._stop,
                self._pause,
                self._pause,
                self._cut,
                self._cut,
                self._silence,
                self._lose_the_lock,
                self._cut_all,
                self._want,
                self._change_rate,
                self._cancel,
                self._upgrade,
            ]
        )(node)

    def _set_the_clock(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                self.tally.clock_jumps += 1
                node.process.time.wall_offset_ms += self._fate.choice(_SKEWS_MS)

    def _excuse(self, node: VirtualNode, for_ms: int) -> None:
        from_ms = self.server.monotonic_ms() + for_ms + _WELL_MS
        self._well_from_ms[node.node_id] = max(from_ms, self._well_from_ms.get(node.node_id, 0))

    def _kill(self, node: VirtualNode) -> None:
        self.tally.kills += 1
        node.kill()
        self._again(node)

    def _lose_the_machine(self, node: VirtualNode) -> None:
        self.tally.lost_machines += 1
        node.lose_the_machine()
        self._again(node)

    def _stop(self, node: VirtualNode) -> None:
        if node.process is not None:
            node.process.stop()

    def _on_ended(self, node: VirtualNode) -> None:
        process = node.process
        assert process is not None
        error = process.ended_by
        if error is not None and not isinstance(error, EXPECTED_ENDS):
            raise HistoryError("".join(format_exception(error))) from error
        self.tally.failed_starts += error is not None
        node.process = None
        self._again(node)

    def _again(self, node: VirtualNode) -> None:
        if node.node_id not in self._starting:
            self._starting.add(node.node_id)
            self._later(self._fate.choice(_AGAIN_MS), lambda: self._start_again(node))

    def _start_again(self, node: VirtualNode) -> None:
        self._starting.discard(node.node_id)
        node.release = max(node.release, self.database.version)
        if node.process is None:
            node.start(self.server.wall_ms())
            self._excuse(node, 0)

    def _pause(self, node: VirtualNode) -> None:
        if node.is_standing_still:
            return
        self.tally.pauses += 1
        for_ms = self._fate.choice([100, 400, 650, 900, 2_000, self.around.lease_ms + 1_000])
        self._excuse(node, for_ms)
        process = node.process
        node.stand_still()

        def go_on() -> None:
            if node.process is process and node.is_standing_still:
                node.go_on()

        self._later(for_ms, go_on)

    def _cut(self, node: VirtualNode) -> None:
        self.tally.cuts += 1
        for_ms = self._fate.choice([0, 50, 400, 1_000, 5_000])
        self._excuse(node, for_ms)
        node.stay_away(True)
        self._later(for_ms, lambda: node.stay_away(False))

    def _cut_all(self, _: VirtualNode) -> None:
        """The database starts again."""
        self.tally.cuts += 1
        self.database.attendant = None
        self.database.node_attendants.clear()
        for_ms = self._fate.choice([0, 50, 400, 1_500, self.around.lease_ms + 500])
        for node in self.nodes:
            self._excuse(node, for_ms)
            node.stay_away(True)
            self._later(for_ms, lambda node=node: node.stay_away(False))  # type: ignore[misc]

    def _silence(self, node: VirtualNode) -> None:
        tables = node.tables
        if tables is None:
            return
        self.tally.silences += 1
        for_ms = self._fate.choice([300, 1_500, 5_000, self.around.lease_ms + 1_000])
        self._excuse(node, for_ms)
        tables.be_silent()
        self._later(for_ms, tables.be_heard)

    def _lose_the_lock(self, node: VirtualNode) -> None:
        if node.tables is not None:
            self.tally.lost_locks += 1
            node.tables.cut_attendance()

    def _want(self, node: VirtualNode) -> None:
        """An operator asks for another leader."""
        self.tally.steps_down += 1
        self.database.wanted = node.node_id

    def _cancel(self, node: VirtualNode) -> None:
        """Cancel some of the node's statements for a while, as an administrator may; a leader then renews its lease
        later.
        """
        self.tally.cancels += 1
        for_ms = self._fate.choice([400, 2_000])
        self._excuse(node, for_ms + self.around.lease_ms)
        node.suffer_cancels(self._fate.choice([0.2, 0.7]))
        self._later(for_ms, lambda: node.suffer_cancels(0))

    def _upgrade(self, node: VirtualNode) -> None:
        """It stops, and a newer release is started in its place; the others follow once they end."""
        self.tally.upgrades += 1
        node.release = self.database.version + 1
        self._stop(node)

    def _change_rate(self, node: VirtualNode) -> None:
        node.rate = self._fate.choice(self._rates)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self, start_ms: int) -> None:
        self.around.cut_share = 0
        for node in self.nodes:
            if node.is_standing_still:
                node.go_on()
            node.stay_away(False)
            node.suffer_cancels(0)
            if node.tables is not None:
                node.tables.cut_share = 0
        super()._settle(start_ms)

    def _read_everything(self) -> None:
        end_ms = self._now_ms + _AGREED_MS
        while self._now_ms < end_ms and len({self._named_by(node) for node in self.nodes}) > 1:
            self._run_until(self._now_ms + 500)
        named = {self._named_by(node) for node in self.nodes}
        if len(named) > 1:
            raise HistoryError(f"I32, in the end every node names one leader, and the same topics: {sorted(named)}")
        super()._read_everything()
        self.tally.redirected = self.network.counts.redirected
        self.tally.answers_of_standbys = self.network.counts.answers_of_standbys

    def _named_by(self, node: VirtualNode) -> str:
        """Return, as text, the leaders and nodes that this node's Metadata response names."""
        answer = self._ask(node, MetadataRequest(topics=None), 9)
        if answer is None:
            return "no answer"
        topics = [
            (topic.name, [(each.partition_index, each.leader_id, each.leader_epoch) for each in topic.partitions])
            for topic in answer.topics
        ]
        nodes = [(each.node_id, each.host) for each in answer.brokers]
        return f"{answer.controller_id} of {nodes}: {sorted(topics)}"

    def _ask(self, node: VirtualNode, request: Message, version: int) -> Any:
        arrival = node.take(self.broker.frame(request, version), request, version)
        for _ in range(1_000):
            self._step()
            if arrival.is_there:
                assert arrival.reply is not None
                return arrival.reply.message
        return None
