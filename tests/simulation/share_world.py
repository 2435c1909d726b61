"""Share groups in simulation: a broker with queues and producers of every kind, its locks, faults, kills, power cuts.

Owns: virtual time, when the broker stops, what happens beside the members of the group, and the account that
`share_history` judges: taken where requests arrive at the broker, so that an answer that is lost on its way counts too.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.broker.sharing.sessions import PartitionId
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.share_acknowledge_request import ShareAcknowledgeRequest
from oncelog.protocol.generated.share_fetch_request import ShareFetchRequest
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.simulated import LEGS, TABLE, Life, Session, produce, transfers
from tests.fakes.broker import Reply
from tests.fakes.budget import names_its_seed
from tests.history.auditor import HistoryError
from tests.history.events import History, LogBatch
from tests.history.log_reader import batches_of
from tests.history.recorder import Recorder
from tests.simulation.broker_network import Client, Network
from tests.simulation.broker_states import log_of
from tests.simulation.log_auditor import read_undamaged
from tests.simulation.share_history import Acknowledged, Acquisition, ShareHistory, audit, tally
from tests.simulation.share_members import GROUP, ShareMember
from tests.simulation.stage import Stage, Turn

_TOPIC = LEGS[0][0]
_GROUP_RESOURCE = 32
_LOCK_MS, _SESSION_MS = 1_500, 6_000
_CUT_SHARE = 0.02
"""The share of acknowledgements during whose write the power fails."""
_CALM_MS = 60_000
_DRAINED_MS = 4 * _LOCK_MS + _SESSION_MS


class Noted:
    """A request as it arrived, until its answer is there."""

    def __init__(self, request: Any, arrived: Turn, reply: Reply, acknowledged: list[Acknowledged]) -> None:
        self.request = request
        self.arrived = arrived
        self.reply = reply
        self.acknowledged = acknowledged


class ShareNetwork(Network):
    def __init__(self, *arguments: Any, note: Callable[[Message, Callable[[], Reply]], Reply], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._note = note

    def _take(
        self, client: Client, ticket: int, frame: memoryview, request: Any, version: int, is_double: bool
    ) -> None:
        reply = self._note(request, lambda: self._broker().take(frame, request, version))
        if not is_double:
            self._pending.append((client, ticket, reply))


class ShareWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        is_committed = self.random.random() < 0.6
        limit = self.random.choice([2, 3, 5])
        settings = (
            "offsets.topic.num.partitions=2",
            "transaction.state.log.num.partitions=2",
            "share.coordinator.state.topic.num.partitions=2",
            "share.coordinator.state.topic.prune.interval.ms=1000",
            f"share.coordinator.snapshot.update.records.per.snapshot={self.random.choice([1, 3, 20])}",
            "group.share.min.record.lock.duration.ms=1000",
            f"group.share.record.lock.duration.ms={_LOCK_MS}",
            "group.share.min.session.timeout.ms=1000",
            f"group.share.session.timeout.ms={_SESSION_MS}",
            "group.share.heartbeat.interval.ms=500",
            "group.share.min.heartbeat.interval.ms=500",
            f"group.share.delivery.count.limit={limit}",
            f"oncelog.flush.loop.appends={self.random.choice([0, 1, 1, 64])}",
        )
        self.history = ShareHistory(_LOCK_MS, _SESSION_MS, limit, is_committed)
        self.stage = Stage(seed, self.random, settings)
        self.stage.collect, self.stage.on_stop = self._collect, self._on_stop
        self._recorder = Recorder(History())
        self._clients: list[Client] = []
        self._noted: list[Noted] = []
        self.network = ShareNetwork(
            self.random, self.stage.later, lambda: self.stage.broker, may_be_late=False, note=self._on_request
        )
        self._create()

    def _create(self) -> None:
        for topic, partitions in ((_TOPIC, len(LEGS)), (TABLE[0], 1)):
            wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
            self.stage.broker.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5)
        level = "read_committed" if self.history.is_committed else "read_uncommitted"
        configs = {"share.auto.offset.reset": "earliest", "share.isolation.level": level}
        resource = AlterConfigsResource(
            resource_type=_GROUP_RESOURCE,
            resource_name=GROUP,
            configs=[AlterableConfig(name=name, config_operation=0, value=value) for name, value in configs.items()],
        )
        answer = self.stage.broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        if answer.responses[0].error_code:
            raise HistoryError(f"the group's settings are refused: {answer.responses[0].error_message}")

    # --- the account --------------------------------------------------------------------------------------------------

    def _on_request(self, request: Message, take: Callable[[], Reply]) -> Reply:
        arrived = self.stage.turn()
        if isinstance(request, ShareGroupHeartbeatRequest):
            self.history.heartbeats[request.member_id].append(arrived)
            if request.member_epoch < 0:
                self.history.closes[request.member_id].append(arrived)
        if not isinstance(request, (ShareFetchRequest, ShareAcknowledgeRequest)):
            return take()
        if request.share_session_epoch < 0:
            self.history.closes[request.member_id or ""].append(arrived)
        acknowledged = list(_acknowledgements(request, arrived))
        for each in acknowledged:
            each.start_offset = self._start_offset(request.topics[0].topic_id, each.partition)
        self.history.acknowledgements += acknowledged  # also if it is never answered
        if acknowledged and not self.network.is_calm and self.random.random() < _CUT_SHARE:
            self.stage.broker.disk.operations_left = self.random.randint(0, 4)
        reply = take()
        self._noted.append(Noted(request, arrived, reply, acknowledged))
        return reply

    def _start_offset(self, topic_id: UUID, partition: int) -> int:
        life = self.stage.broker.broker.sharing.find(GROUP, PartitionId(topic_id, partition))
        return 0 if life is None or life.state is None else life.state.start_offset

    def _collect(self) -> None:
        self._note_answers()
        self.network.collect()

    def _note_answers(self) -> None:
        waiting, self._noted = self._noted, []
        for each in waiting:
            if not each.reply.is_there:
                self._noted.append(each)
            elif not each.reply.is_closed:
                self._note_answer(each, self.stage.turn())

    def _note_answer(self, noted: Noted, answered: Turn) -> None:
        message = noted.reply.message
        is_fetch = isinstance(noted.request, ShareFetchRequest)
        told = {
            data.partition_index: data.acknowledge_error_code if is_fetch else data.error_code
            for topic in message.responses
            for data in topic.partitions
        }
        for each in noted.acknowledged:
            each.answered = answered
            each.error = message.error_code or told.get(each.partition, 0)
        if not is_fetch:
            return
        for topic in message.responses:
            for data in topic.partitions:
                log = log_of(self.stage.broker, (_TOPIC, data.partition_index))
                for acquired in data.acquired_records:
                    self.history.acquisitions.append(
                        Acquisition(
                            noted.request.member_id,
                            data.partition_index,
                            acquired.first_offset,
                            acquired.last_offset,
                            acquired.delivery_count,
                            noted.arrived,
                            answered,
                            len(self.history.restarts),
                            log.last_stable_offset,
                        )
                    )

    def _on_stop(self, _: str) -> None:
        self._note_answers()
        self._noted = []
        self.network.on_restart()
        self.history.restarts.append(self.stage.turn())

    # --- a life -------------------------------------------------------------------------------------------------------

    @names_its_seed
    def run(self, duration_ms: int = 15_000) -> Counter[str]:
        topic = self.stage.broker.broker.topics.get(_TOPIC)
        assert topic is not None
        topic_id = topic.topic_id
        for number in range(3):
            session = self._session(number)
            self._join(Client(transfers(session, 8), session.name))
            for incarnation in range(3):
                member = self._member(topic_id)
                client = Client(member.works(self.random.choice([5, 20, 60])), f"member-{number}-{incarnation}")
                self.stage.later(incarnation * self.random.randint(500, 5_000), lambda new=client: self._join(new))  # type: ignore[misc]
        self._join(Client(self._writes(40), "writer"))
        self._join(Client(self._deletes(6), "purger"))
        self.stage.trouble()
        self.stage.run_until(duration_ms)
        self.network.is_calm = True
        self.stage.calm()
        self._settle(duration_ms)
        self._drain(topic_id)
        self._read_the_logs()
        audit(self.history)
        self.stage.counts.update(tally(self.history))
        return self.stage.counts

    def _session(self, number: int) -> Session:
        return Session(
            f"transfer-{number}",
            2,
            self._recorder,
            f"t{number}",
            Random(self.random.random()),
            self._wall_ms,
        )

    def _wall_ms(self) -> int:
        return self.stage.broker.time.wall_ms()

    def _member(self, topic_id: UUID, *, accepts_all: bool = False) -> ShareMember:
        random = Random(self.random.random())
        member_id = str(UUID(int=random.getrandbits(128), version=4))
        return ShareMember(member_id, _TOPIC, topic_id, random, lambda: self.stage.now_ms, accepts_all)

    def _join(self, client: Client) -> None:
        self._clients.append(client)
        self.network.join(client)

    def _writes(self, number: int) -> Life:
        """Batches of several records, without a transaction."""
        random = Random(self.random.random())
        for batch in range(number):
            records = [Record(index, 1, None, b"w%d" % batch) for index in range(random.choice([1, 1, 4, 9]))]
            yield from produce(random, random.choice(LEGS), encode_batch(records))
            yield random.choice([0, 10, 200, 600])

    def _deletes(self, number: int) -> Life:
        """Delete records below those that are acquired, above them and in their midst."""
        random = Random(self.random.random())
        for _ in range(number):
            yield random.choice([500, 1_500, 4_000])
            topic, index = random.choice(LEGS)
            log = log_of(self.stage.broker, (topic, index))
            offset = random.randint(log.log_start_offset, max(log.log_start_offset, log.high_watermark // 2))
            partitions = [DeleteRecordsPartition(partition_index=index, offset=offset)]
            named = DeleteRecordsTopic(name=topic, partitions=partitions)
            yield DeleteRecordsRequest(topics=[named], timeout_ms=1_000), 2

    def _settle(self, start_ms: int) -> None:
        end_ms = start_ms
        while end_ms < start_ms + _CALM_MS and not all(client.is_done for client in self._clients):
            end_ms += 1_000
            self.stage.run_until(end_ms)
        at_work = [client.name for client in self._clients if not client.is_done]
        if at_work:
            raise HistoryError(f"S9, everybody gets on after the last fault: {at_work} do not")
        while self.stage.now_ms < start_ms + _CALM_MS and not all(
            log_of(self.stage.broker, leg).last_stable_offset == log_of(self.stage.broker, leg).high_watermark
            for leg in LEGS
        ):
            self.stage.run_until(self.stage.now_ms + 500)

    def _drain(self, topic_id: UUID) -> None:
        """One that takes all that is left, also what another has and forgets, until nothing has come for longer than
        every lock and session."""
        self.network.join(Client(self._member(topic_id).holds(range(len(LEGS))), "holder"))
        self.network.join(Client(self._writes(6), "last writer"))
        self.stage.run_until(self.stage.now_ms + _LOCK_MS)
        member = self._member(topic_id, accepts_all=True)
        client = Client(member.works(1_000_000), "last")
        self._join(client)
        acquired, quiet_since_ms = 0, self.stage.now_ms
        end_ms = self.stage.now_ms + 10 * _CALM_MS
        while self.stage.now_ms - quiet_since_ms < _DRAINED_MS:
            if self.stage.now_ms > end_ms:
                raise HistoryError("the last member acquires without an end")
            self.stage.run_until(self.stage.now_ms + 500)
            if member.has_acquired != acquired:
                acquired, quiet_since_ms = member.has_acquired, self.stage.now_ms

    def _read_the_logs(self) -> None:
        for topic, partition in LEGS:
            log = log_of(self.stage.broker, (topic, partition))
            self.history.starts[partition] = log.log_start_offset
            open_of: dict[int, list[int]] = {}
            offset = log.log_start_offset
            while offset < log.log_end_offset:
                read = list(batches_of(read_undamaged(log, offset, 2**30, FetchIsolation.LOG_END).records))
                for batch in read:
                    self._read_batch(partition, batch, open_of)
                offset = read[-1].last_offset + 1

    def _read_batch(self, partition: int, batch: LogBatch, open_of: dict[int, list[int]]) -> None:
        offsets = range(batch.base_offset, batch.last_offset + 1)
        producer_id = batch.identity[0]
        if batch.marker is not None:
            decided = open_of.pop(producer_id, [])
            if not batch.marker:
                self.history.aborted.update((partition, offset) for offset in decided)
            return
        self.history.records.update((partition, offset) for offset in offsets)
        if batch.is_transactional:
            open_of.setdefault(producer_id, []).extend(offsets)


def _acknowledgements(request: Any, arrived: Turn) -> Iterator[Acknowledged]:
    for topic in request.topics:
        for partition in topic.partitions:
            for batch in partition.acknowledgement_batches:
                kinds = batch.acknowledge_types
                if len(kinds) == 1:
                    yield Acknowledged(
                        request.member_id,
                        partition.partition_index,
                        batch.first_offset,
                        batch.last_offset,
                        kinds[0],
                        arrived,
                    )
                    continue
                for place, kind in enumerate(kinds):
                    offset = batch.first_offset + place
                    yield Acknowledged(request.member_id, partition.partition_index, offset, offset, kind, arrived)
