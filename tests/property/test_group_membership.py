"""Clients that come, go, fall silent and restart at random: no part is ever held twice, and quiet brings stability."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from tests.clients.asking import Reply
from tests.clients.group_members import SESSION_TIMEOUT_MS, Member, describe, started
from tests.fakes.broker import VirtualBroker
from tests.support.samples import examples

CLIENT_COUNT = 4
STATIC = (2, 3)
"""Clients with a group.instance.id."""
QUIET_ROUNDS = 40
STEP_MS = 500

clients = st.integers(0, CLIENT_COUNT - 1)
steps = st.one_of(
    st.tuples(st.just("act"), clients),
    st.tuples(st.just("act"), clients),
    st.tuples(st.just("act"), clients),
    st.tuples(st.just("leave"), clients),
    st.tuples(st.just("restart client"), clients),
    st.tuples(st.just("wait"), st.sampled_from([1, 100, SESSION_TIMEOUT_MS - 1, SESSION_TIMEOUT_MS])),
    st.tuples(st.just("restart broker"), st.booleans()),
    st.tuples(st.just("lose all groups")),
)


@dataclass
class Client:
    """Does, at each `act`, what a consumer would do next."""

    number: int
    member: Member
    joining: Reply | None = None
    syncing: Reply | None = None
    part: bytes | None = None
    generations: list[int] = field(default_factory=list)

    def act(self) -> None:
        if self.joining is not None:
            self._on_joined()
        elif self.syncing is not None:
            self._on_synced()
        elif self.part is None:
            self._join()
        else:
            self._follow(self.member.heartbeat())

    def _join(self) -> None:
        """Gives up its part first, as an eager consumer does."""
        self.part = self.syncing = None
        self.joining = self.member.send_join()

    def _on_joined(self) -> None:
        if self.joining is None or not self.joining.is_there:
            return
        answer, self.joining = self.joining.message, None
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member.member_id = answer.member_id
            self._join()
        elif answer.error_code != ErrorCode.NONE:
            self._follow(answer.error_code)
        else:
            self.member.learn()
            self.generations.append(self.member.generation_id)
            assert (self.member.is_leader) == bool(answer.members)
            parts = {other.member_id: b"part %d" % index for index, other in enumerate(answer.members)}
            self.syncing = self.member.sync(parts)

    def _on_synced(self) -> None:
        if self.syncing is None or not self.syncing.is_there:
            return
        answer, self.syncing = self.syncing.message, None
        if answer.error_code == ErrorCode.NONE:
            self.part = answer.assignment
        else:
            self._follow(answer.error_code)

    def _follow(self, error: int) -> None:
        if error == ErrorCode.NONE:
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.member.member_id = ""
        self._join()

    def leave(self) -> None:
        if self.member.member_id and self.joining is None and self.syncing is None:
            self.member.leave()
            self.restart()

    def restart(self) -> None:
        """Start a new process: it knows nothing, and the broker is not notified."""
        self.member.member_id = ""
        self.member.generation_id = -1
        self.joining = self.syncing = self.part = None

    def lose_connection(self, broker: VirtualBroker) -> None:
        """Answers that were on their way are lost; what was assigned is kept until the next heartbeat."""
        self.member.broker = broker
        self.joining = self.syncing = None


class Run:
    def __init__(self) -> None:
        self.broker = started()
        self.clients = [
            Client(
                number,
                Member(
                    self.broker,
                    f"client-{number}",
                    group_instance_id=f"instance-{number}" if number in STATIC else None,
                    rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                ),
            )
            for number in range(CLIENT_COUNT)
        ]

    def step(self, step: tuple[object, ...]) -> None:
        match step:
            case ("act", int(number)):
                self.clients[number].act()
            case ("leave", int(number)):
                self.clients[number].leave()
            case ("restart client", int(number)):
                self.clients[number].restart()
            case ("wait", int(delay_ms)):
                self.broker.time.advance(delay_ms)
            case ("restart broker", bool(is_power_cut)):
                self.broker = self.broker.crashed(1) if is_power_cut else self.broker.killed()
                for client in self.clients:
                    client.lose_connection(self.broker)
            case ("lose all groups",):
                self.broker.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1000), 5)
                found = self.broker.ask(FindCoordinatorRequest(key="group"), 1)
                assert found.error_code == ErrorCode.NONE
                assert all(client.joining is None or client.joining.is_there for client in self.clients)

    def check(self) -> None:
        """Require that each client that may commit holds a part that no other such client holds."""
        holders = [client for client in self.clients if client.part and self._may_commit(client)]
        assert len({client.part for client in holders}) == len(holders)
        assert len({client.member.generation_id for client in holders}) <= 1

    def _may_commit(self, client: Client) -> bool:
        return client.member.commit(client.member.generation_id, client.number) == ErrorCode.NONE

    def quieten(self) -> None:
        """Let all clients behave from now on."""
        for _ in range(QUIET_ROUNDS):
            for client in self.clients:
                client.act()
            self.broker.time.advance(STEP_MS)


@settings(max_examples=examples(60))
@given(st.lists(steps, max_size=60))
def test_no_part_is_held_twice_and_quiet_brings_a_stable_generation_of_all(taken: list[tuple[object, ...]]) -> None:
    run = Run()
    for step in taken:
        run.step(step)
        run.check()
    run.quieten()
    run.check()
    group = describe(run.broker)
    assert group.group_state == "Stable"
    assert {member.member_id for member in group.members} == {client.member.member_id for client in run.clients}
    assert all(client.part for client in run.clients)
    assert len({client.member.generation_id for client in run.clients}) == 1
