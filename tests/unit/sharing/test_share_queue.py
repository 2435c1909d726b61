"""Members of a share group that do anything at any time, and an auditor who follows each record."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog.protocol.errors import ErrorCode
from tests.clients.share_member import ACCEPT, REJECT, RELEASE, ShareMember, acquired, errors, rows
from tests.fakes.broker import Reply
from tests.fakes.share_states import ACKNOWLEDGED, ARCHIVED
from tests.unit.sharing.world import LOCK_MS, World

NAMES = st.sampled_from(["a", "b", "c"])
LIMIT = 5


class Auditor:
    """Follows each record through the deliveries and acknowledgements of members."""

    def __init__(self) -> None:
        self.holders: dict[tuple[int, int], tuple[str, int]] = {}
        """The member that holds each record, and until when."""
        self.deliveries: dict[tuple[int, int], int] = {}
        self.done: set[tuple[int, int]] = set()

    def acquire(self, member_id: str, record: tuple[int, int], count: int, now_ms: int) -> None:
        holder = self.holders.get(record)
        assert holder is None or holder[1] <= now_ms, "a record is handed to two members within its lock"
        assert record not in self.done, "a record that was done is handed out again"
        assert self.deliveries.get(record, 0) < count <= LIMIT, "a delivery is not counted"
        self.deliveries[record] = count
        self.holders[record] = member_id, now_ms + LOCK_MS

    def held(self, member_id: str, partition: int, now_ms: int) -> list[int]:
        return sorted(
            offset
            for (index, offset), (holder, until_ms) in self.holders.items()
            if index == partition and holder == member_id and until_ms > now_ms
        )

    def end(self, record: tuple[int, int], kind: int) -> None:
        del self.holders[record]
        if kind != RELEASE or self.deliveries[record] == LIMIT:
            self.done.add(record)

    def release(self, member_id: str) -> None:
        for record, (holder, _) in tuple(self.holders.items()):
            if holder == member_id:
                self.end(record, RELEASE)

    def expire(self, now_ms: int) -> None:
        for record, (_, until_ms) in tuple(self.holders.items()):
            if until_ms <= now_ms:
                self.end(record, RELEASE)


class ShareQueue(RuleBasedStateMachine):
    """No record is held by two members, none is handed out again once it is done, and none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(partitions=2)
        self.auditor = Auditor()
        self.members: dict[str, ShareMember] = {}
        self.waiting: dict[str, Reply] = {}
        self.appended = [0, 0]

    @property
    def now_ms(self) -> int:
        return self.world.broker.time.monotonic_ms()

    def look(self) -> None:
        """Take the responses that members have got meanwhile."""
        self.auditor.expire(self.now_ms)
        for name, reply in tuple(self.waiting.items()):
            if reply.is_there:
                del self.waiting[name]
                self.members[name].epoch += 1
                self.take(name, reply.message)

    def take(self, name: str, response: Any) -> None:
        assert response.error_code == ErrorCode.NONE
        for (_, partition), data in rows(response).items():
            assert data.error_code == data.acknowledge_error_code == ErrorCode.NONE
            for each in data.acquired_records:
                for offset in range(each.first_offset, each.last_offset + 1):
                    self.auditor.acquire(name, (partition, offset), each.delivery_count, self.now_ms)

    @rule(partition=st.integers(0, 1), count=st.integers(1, 4))
    def append(self, partition: int, count: int) -> None:
        self.world.append(count, partition)
        self.appended[partition] += count
        self.look()

    @rule(name=NAMES, max_records=st.integers(1, 5), mode=st.integers(0, 1), wait_ms=st.sampled_from([0, 0, 500]))
    def fetch(self, name: str, max_records: int, mode: int, wait_ms: int) -> None:
        if name in self.waiting:
            return
        member = self.members.setdefault(name, self.world.member(name))
        reply = member.start_fetch(
            self.world.keys if member.epoch == 0 else (),
            max_records=max_records,
            share_acquire_mode=mode,
            max_wait_ms=wait_ms,
        )
        self.waiting[name] = reply
        self.look()

    @rule(name=NAMES, partition=st.integers(0, 1), data=st.data())
    def acknowledge(self, name: str, partition: int, data: st.DataObject) -> None:
        member = self.members.get(name)
        held = self.auditor.held(name, partition, self.now_ms)
        if member is None or member.epoch == 0 or name in self.waiting or not held:
            return
        chosen = data.draw(st.lists(st.sampled_from(held), unique=True, min_size=1).map(sorted))
        kinds = [data.draw(st.sampled_from([ACCEPT, RELEASE, REJECT])) for _ in chosen]
        batches = [(offset, offset, [kind]) for offset, kind in zip(chosen, kinds, strict=True)]
        key = self.world.keys[partition]
        for offset, kind in zip(chosen, kinds, strict=True):
            self.auditor.end((partition, offset), kind)
        assert errors(member.acknowledge({key: batches})) == {key: ErrorCode.NONE}
        self.look()

    @rule(name=NAMES, orderly=st.booleans())
    def leave(self, name: str, orderly: bool) -> None:
        member = self.members.pop(name, None)
        if member is None:
            return
        self.waiting.pop(name, None)
        self.auditor.release(name)
        if orderly and member.epoch:
            assert member.close().error_code == ErrorCode.NONE
        else:
            member.disconnect()
        self.look()

    @rule(delay_ms=st.sampled_from([1, 500, LOCK_MS // 2, LOCK_MS]))
    def let_pass(self, delay_ms: int) -> None:
        self.world.let_pass(delay_ms)
        self.look()

    @invariant()
    def agrees(self) -> None:
        """Require that the durable state agrees with the responses to members."""
        for index in range(2):
            key = self.world.state_key(index)
            start = self.world.states.shares[key].start_offset
            for offset, (state, count) in self.world.states.states(key).items():
                if offset >= start:
                    is_done = state in (ACKNOWLEDGED, ARCHIVED)
                    assert is_done == ((index, offset) in self.auditor.done)
                    assert count <= self.auditor.deliveries[index, offset]
            assert all((index, offset) in self.auditor.done for offset in range(start))

    def teardown(self) -> None:
        """Let all members go; another member then gets every record that is not done."""
        for name in tuple(self.members):
            self.leave(name, False)
        member = self.world.member("last")
        self.members["last"] = member
        response = member.fetch(self.world.keys)
        while acquired(response):
            self.take("last", response)
            response = member.fetch()
        for index in range(2):
            held = set(self.auditor.held("last", index, self.now_ms))
            done = {offset for partition, offset in self.auditor.done if partition == index}
            assert held | done == set(range(self.appended[index]))


TestShareQueue = ShareQueue.TestCase
TestShareQueue.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
