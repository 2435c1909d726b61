"""What the witness makes of facts: which are mistakes, which are not, and what it remembers of them."""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from oncelog.broker.witness.findings import Finding, Report, Sender
from oncelog.broker.witness.kinds import KINDS
from oncelog.broker.witness.recent import Recent
from oncelog.broker.witness.witness import LIMIT, TAKEOVER_WINDOW_MS, Batch, SharedBy, Witness
from tests.fakes.virtual_time import VirtualTime

_PORTS = count(40_000)
PRODUCER = (7, 0)


@dataclass(eq=False)
class FakeConnection:
    host: str = "10.0.0.1"
    is_open: bool = True
    port: int = field(default_factory=lambda: next(_PORTS))

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def is_connected(self) -> bool:
        return self.is_open


class Scene:
    """A witness, its time, and what it has said."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.time = VirtualTime()
        self.told: list[Finding] = []
        self.witness = Witness(self.time, limit, self.told.append)

    def sender(self, client_id: str = "app", host: str = "10.0.0.1") -> Sender:
        return self.witness.sender(FakeConnection(host), client_id)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.witness.report().findings

    @property
    def kinds(self) -> list[str]:
        return [each.kind for each in self.findings]

    def end(self, sender: Sender, *, is_commit: bool = True, is_version_1: bool = False) -> None:
        self.witness.on_transaction_end(sender, "till", PRODUCER, is_commit=is_commit, is_version_1=is_version_1)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def batch(error: str = "", *, topic: str = "sales", crc: int = 1, base_sequence: int = 0, records: int = 2) -> Batch:
    return Batch(topic, 0, crc, base_sequence, records, error)


# --- what a finding says ----------------------------------------------------------------------------------------------


def test_a_finding_has_its_count_client_mistake_time_and_page(scene: Scene) -> None:
    connection = FakeConnection()
    scene.witness.on_software(connection, "some-library", "1.2")
    scene.witness.on_transactional_produce(scene.sender("writer"), ["sales"])
    for _ in range(3):
        scene.witness.on_uncommitted_fetch(scene.witness.sender(connection, "reader"), ["sales", "other"])
        scene.time.advance(1_000)
    (found,) = scene.findings
    assert (found.kind, found.severity, found.topic, found.count) == ("reads-uncommitted", "wrong", "sales", 3)
    assert (found.client_id, found.software_name, found.software_version) == ("reader", "some-library", "1.2")
    assert found.address == connection.address
    assert found.last_ms - found.first_ms == 2_000
    assert found.docs == "docs/operate/witness.md#reads-uncommitted"
    assert Report.from_json(scene.witness.report().as_json()) == scene.witness.report()


def test_a_finding_is_reported_once_and_counted_each_time(scene: Scene) -> None:
    for _ in range(3):
        scene.end(scene.sender(), is_version_1=True)
    assert [each.count for each in scene.told] == [1]
    assert [each.count for each in scene.findings] == [3]


def test_what_is_wrong_comes_before_what_may_be_wanted(scene: Scene) -> None:
    scene.end(scene.sender("a"), is_version_1=True)
    scene.witness.on_batches(PRODUCER, [batch("MESSAGE_TOO_LARGE")])
    scene.end(scene.sender("b"))
    assert [each.severity for each in scene.findings] == ["wrong", "look"]


def test_clients_of_other_hosts_and_names_have_findings_of_their_own(scene: Scene) -> None:
    for sender in (scene.sender("a"), scene.sender("b"), scene.sender("a", "10.0.0.2"), scene.sender("a")):
        scene.end(sender, is_version_1=True)
    assert sorted((each.client_id, each.address[:8], each.count) for each in scene.findings) == [
        ("a", "10.0.0.1", 2),
        ("a", "10.0.0.2", 1),
        ("b", "10.0.0.1", 1),
    ]


def test_producers_with_default_ids_of_one_library_are_counted_together(scene: Scene) -> None:
    for number in (1, 2):
        scene.end(scene.sender(f"aiokafka-producer-{number}"), is_version_1=True)
    assert [(each.client_id, each.count) for each in scene.findings] == [("aiokafka-producer-2", 2)]


# --- topics that transactions write to --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_before", [True, False])
def test_it_does_not_matter_whether_readers_and_weak_writers_come_before_the_first_transaction(is_before: bool) -> None:
    scene = Scene()

    def others() -> None:
        scene.witness.on_uncommitted_fetch(scene.sender("reader"), ["sales"])
        scene.witness.on_weak_produce(scene.sender("logger"), ["sales"], 1)

    if is_before:
        others()
        assert scene.findings == ()
    scene.witness.on_transactional_produce(scene.sender("writer"), ["sales"])
    others()
    expected = 2 if is_before else 1
    assert [(each.kind, each.count) for each in scene.findings] == [
        ("reads-uncommitted", expected),
        ("acks-below-all", expected),
    ]
    assert len(scene.told) == 2


@pytest.mark.parametrize("is_before", [True, False])
def test_a_client_that_writes_in_transactions_and_with_weak_acks_is_found_by_its_client_id(is_before: bool) -> None:
    scene = Scene()
    if is_before:
        scene.witness.on_weak_produce(scene.sender("app"), ["audit"], 0)
    scene.witness.on_transactional_produce(scene.sender("app"), ["sales"])
    if not is_before:
        scene.witness.on_weak_produce(scene.sender("app"), ["audit"], 0)
    scene.witness.on_weak_produce(scene.sender("other"), ["audit"], 0)
    assert [(each.kind, each.client_id, each.topic) for each in scene.findings] == [("acks-below-all", "app", "audit")]


def test_weak_acks_of_a_default_client_id_say_nothing_about_other_programs_of_the_host(scene: Scene) -> None:
    scene.witness.on_transactional_produce(scene.sender("rdkafka"), ["sales"])
    scene.witness.on_weak_produce(scene.sender("rdkafka"), ["audit"], 1)
    assert scene.findings == ()


# --- offsets ----------------------------------------------------------------------------------------------------------


def test_offsets_that_a_program_commits_beside_its_transactions_are_found(scene: Scene) -> None:
    scene.witness.on_transactional_produce(scene.sender("app"), ["out"])
    scene.witness.on_plain_commit(scene.sender("app"), "group", ["in"], names_member=True)
    scene.witness.on_plain_commit(scene.sender("other"), "group-2", ["in"], names_member=True)
    scene.witness.on_plain_commit(scene.sender("app", "10.0.0.2"), "group-3", ["in"], names_member=True)
    (found,) = scene.findings
    assert (found.kind, found.client_id, found.group) == ("offsets-outside-transaction", "app", "group")


@pytest.mark.parametrize(
    ("consumer", "producer"),
    [
        ("consumer-billing-1", "producer-billing-tx"),
        ("aiokafka-0.14.0", "aiokafka-producer-1"),
        ("kafka-python-3.0.12", "kafka-python-producer-2"),
        ("oncelog-consumer", "oncelog-producer"),
        ("rdkafka", "rdkafka"),
        ("kgo", "kgo"),
        ("", ""),
    ],
)
def test_default_client_ids_of_one_library_are_taken_for_one_program(consumer: str, producer: str) -> None:
    scene = Scene()
    scene.witness.on_transactional_produce(scene.sender(producer), ["out"])
    scene.witness.on_plain_commit(scene.sender(consumer), "group", ["in"], names_member=True)
    assert scene.kinds == ["offsets-outside-transaction"]


def test_a_program_that_checks_its_own_output_may_commit_where_it_is(scene: Scene) -> None:
    scene.witness.on_transactional_produce(scene.sender(), ["out"])
    scene.witness.on_plain_commit(scene.sender(), "checker", ["out"], names_member=True)
    assert scene.findings == ()


def test_a_program_whose_transactional_producer_has_left_may_commit_as_it_likes(scene: Scene) -> None:
    producer = FakeConnection()
    scene.witness.on_transactional_produce(scene.witness.sender(producer, "app"), ["out"])
    producer.is_open = False
    scene.witness.on_plain_commit(scene.sender("app"), "group", ["in"], names_member=True)
    assert scene.findings == ()


def test_members_that_commit_beside_transactions_of_their_group_are_found_and_a_reset_by_tools_is_not(
    scene: Scene,
) -> None:
    scene.witness.on_transactional_commit(scene.sender("producer"), "till", "group", names_member=True)
    scene.witness.on_plain_commit(scene.sender("tool"), "group", ["in"], names_member=False)
    assert scene.findings == ()
    scene.witness.on_plain_commit(scene.sender("consumer"), "group", ["in"], names_member=True)
    (found,) = scene.findings
    assert (found.kind, found.client_id) == ("offsets-outside-transaction", "consumer")
    assert (found.group, found.transactional_id) == ("group", "till")


@pytest.mark.parametrize(("has_members", "names_member"), [(True, False), (True, True), (False, False)])
def test_a_commit_without_member_is_a_mistake_only_if_the_group_has_members(
    has_members: bool, names_member: bool
) -> None:
    """A program that assigns partitions by hand has no member to name."""
    scene = Scene()
    if has_members:
        scene.witness.on_member("group", 45_000)
    scene.witness.on_transactional_commit(scene.sender(), "till", "group", names_member=names_member)
    assert scene.kinds == (["group-metadata-missing"] if has_members and not names_member else [])


@pytest.mark.parametrize(("timeout_ms", "kinds"), [(45_000, []), (45_001, ["transaction-timeout"])])
def test_a_transaction_may_stay_open_as_long_as_a_silent_member_stays_in_its_group(
    timeout_ms: int, kinds: list[str]
) -> None:
    scene = Scene()
    producer = scene.sender()
    scene.witness.on_init_producer_id(producer, "till", timeout_ms, is_new=True)
    scene.witness.on_member("group", 45_000)
    scene.witness.on_transactional_commit(producer, "till", "group", names_member=True)
    assert scene.kinds == kinds


# --- one id, two instances --------------------------------------------------------------------------------------------


def init(scene: Scene, connection: FakeConnection, *, is_new: bool = True) -> None:
    scene.witness.on_init_producer_id(scene.witness.sender(connection, "app"), "till", 60_000, is_new=is_new)


def test_two_live_instances_that_take_an_id_in_turns_are_found(scene: Scene) -> None:
    first, second = FakeConnection(), FakeConnection()
    init(scene, first)
    init(scene, second)
    assert scene.findings == ()
    init(scene, first)
    (found,) = scene.findings
    assert (found.kind, found.transactional_id, found.address) == ("transactional-id-shared", "till", first.address)
    assert second.address in found.seen


def test_restarts_one_after_another_are_not(scene: Scene) -> None:
    for _ in range(5):
        connection = FakeConnection()
        init(scene, connection)
        connection.is_open = False
    assert scene.findings == ()


def test_one_instance_that_asks_again_is_not(scene: Scene) -> None:
    first, second = FakeConnection(), FakeConnection()
    for connection in (first, first, first):
        init(scene, connection)
    for _ in range(3):  # its epoch is raised after an error, on whichever connection it has
        init(scene, second, is_new=False)
        init(scene, first, is_new=False)
    assert scene.findings == ()


def test_rolling_restarts_that_are_apart_are_not(scene: Scene) -> None:
    for _ in range(3):
        init(scene, FakeConnection())
        scene.time.advance(TAKEOVER_WINDOW_MS + 1)
    assert scene.findings == ()


# --- the end of a transaction -----------------------------------------------------------------------------------------


def test_a_commit_after_a_batch_that_failed_for_good_is_found(scene: Scene) -> None:
    scene.witness.on_batches(PRODUCER, [batch("MESSAGE_TOO_LARGE"), batch(topic="audit", crc=2)])
    assert scene.witness.has_failed_batches
    scene.end(scene.sender())
    (found,) = scene.findings
    assert (found.kind, found.topic, found.transactional_id) == ("commit-after-failed-produce", "sales", "till")
    assert "MESSAGE_TOO_LARGE" in found.seen
    assert not scene.witness.has_failed_batches


def test_an_abort_after_a_failure_is_right_and_the_next_transaction_begins_without_it(scene: Scene) -> None:
    scene.witness.on_batches(PRODUCER, [batch("MESSAGE_TOO_LARGE")])
    scene.end(scene.sender(), is_commit=False)
    scene.end(scene.sender())
    assert scene.findings == ()


def test_a_commit_of_another_epoch_is_not_blamed_for_what_a_fenced_one_could_not_write(scene: Scene) -> None:
    scene.witness.on_batches((7, 3), [batch("INVALID_PRODUCER_EPOCH")])
    scene.end(scene.sender())
    assert scene.findings == ()


def test_a_retry_that_is_written_settles_a_failure_and_another_batch_does_not(scene: Scene) -> None:
    scene.witness.on_batches(PRODUCER, [batch("NOT_LEADER_OR_FOLLOWER")])
    scene.witness.on_batches(PRODUCER, [batch("NOT_LEADER_OR_FOLLOWER")])
    scene.witness.on_batches(PRODUCER, [batch()])
    scene.end(scene.sender())
    assert scene.findings == ()
    scene.witness.on_batches(PRODUCER, [batch("NOT_LEADER_OR_FOLLOWER")])
    scene.witness.on_batches(PRODUCER, [batch(crc=2), batch(topic="audit")])
    scene.end(scene.sender())
    assert scene.kinds == ["commit-after-failed-produce"]


def test_a_batch_that_was_too_large_is_settled_by_its_first_part(scene: Scene) -> None:
    scene.witness.on_batches(PRODUCER, [batch("MESSAGE_TOO_LARGE", base_sequence=5)])
    scene.witness.on_batches(PRODUCER, [batch(crc=2, base_sequence=5, records=1)])
    scene.end(scene.sender())
    assert scene.findings == ()


def test_version_1_of_the_protocol_is_reported_once_a_client(scene: Scene) -> None:
    for _ in range(2):
        scene.end(scene.sender(), is_version_1=True)
        scene.end(scene.sender("modern"), is_version_1=False)
    assert [(each.kind, each.client_id, each.count) for each in scene.findings] == [("torn-transactions", "app", 2)]


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_whatever_clients_name_every_table_is_bounded_and_says_what_it_forgot() -> None:
    scene = Scene(limit=10)
    for number in range(30):
        sender = scene.sender(f"client-{number}")
        scene.witness.on_software(sender.connection, "library", "1")
        scene.witness.on_uncommitted_fetch(sender, [f"read-{number}"])
        scene.witness.on_weak_produce(sender, [f"weak-{number}"], 1)
        scene.witness.on_transactional_produce(sender, [f"topic-{number}"])
        scene.witness.on_batches((number, 0), [batch("MESSAGE_TOO_LARGE")])
        scene.witness.on_init_producer_id(sender, f"id-{number}", 60_000, is_new=True)
        scene.witness.on_member(f"group-{number}", 1)
        scene.witness.on_transactional_commit(sender, f"id-{number}", f"group-{number}", names_member=False)
        scene.witness.on_acquired(SharedBy(f"group-{number}", "member", f"topic-{number}", 0), [(0, 0)], 30_000)
    report = scene.witness.report()
    assert len(report.findings) == 10
    assert set(report.forgotten) == {
        *("connections", "programs", "topics", "transactional_ids", "groups", "producers", "share_partitions"),
        "findings",
    }
    assert all(count >= 20 for count in report.forgotten.values()), report.forgotten
    assert {each.client_id for each in report.findings} <= {f"client-{number}" for number in range(20, 30)}


def test_of_a_long_name_the_beginning_is_kept(scene: Scene) -> None:
    """The protocol allows 32,767 bytes."""
    connection = FakeConnection()
    scene.witness.on_software(connection, "s" * 30_000, "v" * 30_000)
    scene.end(scene.witness.sender(connection, "c" * 30_000), is_version_1=True)
    (found,) = scene.findings
    names = (found.client_id, found.software_name, found.software_version)
    assert [(len(each), each[:3], each[-1]) for each in names] == [(256, letter * 3, "…") for letter in "csv"]


def test_a_table_forgets_what_was_used_least_recently() -> None:
    table: Recent[str, int] = Recent(2)
    table.use("a", lambda: 1)
    table.use("b", lambda: 2)
    table.get("a")
    table.use("c", lambda: 3)
    assert ("a" in table, "b" in table, "c" in table, len(table), table.forgotten_count) == (True, False, True, 2, 1)


def test_each_kind_is_explained_below_its_name_on_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operate" / "witness.md").read_text(encoding="utf-8")
    assert [line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")] == [
        each.name for each in KINDS
    ]
