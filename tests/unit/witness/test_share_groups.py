"""What the witness makes of share groups: those beside transactions, and how much it remembers of members."""

import pytest

from oncelog.broker.witness.witness import Acknowledged, SharedBy
from tests.unit.witness.test_witness import Scene

ACCEPTED = [Acknowledged(0, 0, is_renewal=False)]
SHARED = SharedBy("jobs", "member", "pictures", 0)


def test_a_share_group_of_a_program_that_writes_in_transactions_is_reported() -> None:
    """Its acknowledgements are in no transaction."""
    scene = Scene()
    scene.witness.on_transactional_produce(scene.sender("resizer"), ["thumbnails"])
    scene.witness.on_acknowledged(scene.sender("resizer"), SHARED, ACCEPTED, 30_000)
    (found,) = scene.findings
    assert (found.kind, found.severity) == ("share-group-beside-transactions", "look")
    assert (found.client_id, found.topic, found.group) == ("resizer", "pictures", "jobs")
    assert "not part of a transaction" in found.change


def test_the_default_names_of_a_library_are_one_program() -> None:
    """Consumers of other groups are treated alike."""
    scene = Scene()
    scene.witness.on_transactional_produce(scene.sender("oncelog-producer"), ["thumbnails"])
    scene.witness.on_acknowledged(scene.sender("oncelog-share-consumer"), SHARED, ACCEPTED, 30_000)
    assert scene.kinds == ["share-group-beside-transactions"]


@pytest.mark.parametrize(
    ("writer", "topic", "acknowledged"),
    [
        ("other", "thumbnails", ACCEPTED),
        ("resizer", SHARED.topic, ACCEPTED),
        ("resizer", "thumbnails", [Acknowledged(0, 0, is_renewal=True)]),
    ],
    ids=["another program writes", "its own output is read", "a renewal ends nothing"],
)
def test_where_no_result_can_be_written_twice_nothing_is_reported(
    writer: str, topic: str, acknowledged: list[Acknowledged]
) -> None:
    scene = Scene()
    scene.witness.on_transactional_produce(scene.sender(writer), [topic])
    scene.witness.on_acknowledged(scene.sender("resizer"), SHARED, acknowledged, 30_000)
    assert scene.findings == ()


def test_a_program_without_transactions_is_not_reported() -> None:
    """A program whose producer is gone is not reported either."""
    scene = Scene()
    scene.witness.on_acknowledged(scene.sender("resizer"), SHARED, ACCEPTED, 30_000)
    writer = scene.sender("resizer")
    scene.witness.on_transactional_produce(writer, ["thumbnails"])
    writer.connection.is_open = False  # type: ignore[attr-defined]
    scene.witness.on_acknowledged(scene.sender("resizer"), SHARED, ACCEPTED, 30_000)
    assert scene.findings == ()


def test_members_are_remembered_up_to_a_bound() -> None:
    """The report says how many were forgotten."""
    scene = Scene(limit=10)
    for number in range(30):
        shared = SharedBy("group", f"member-{number}", "topic", 0)
        scene.witness.on_acquired(shared, [(0, 9)], 1_000)
    scene.time.advance(2_000)
    for number in range(30):
        shared = SharedBy("group", f"member-{number}", "topic", 0)
        scene.witness.on_refused_acknowledgement(scene.sender(), shared, [Acknowledged(0, 9, is_renewal=False)])
    assert [each.count for each in scene.findings] == [10]
    assert scene.witness.report().forgotten["share_partitions"] == 20
