"""When a source asks what waits behind open transactions, and what it says where the brokers do not say all."""

import logging
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from oncelog.client import KafkaError, TopicPartition
from oncelog.client.admin.descriptions import ListedTransaction, ProducerState, TransactionDescription
from oncelog.pipeline.source.waiting import Gap, Waiting, Watch, describe
from oncelog.protocol.errors import ErrorCode

PLACE = TopicPartition("t", 0)


class FakeBrokers:
    """Partitions of the topic `t`, each with a gap that a test sets; a question about owners takes no time."""

    def __init__(self, **gaps: tuple[int, int]) -> None:
        self.gap = {TopicPartition("t", int(name[1:])): Gap(*each) for name, each in gaps.items()}
        self.looks = 0
        self.described: list[TopicPartition] = []
        self.is_away = False

    def gaps(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Gap]:
        self.looks += 1
        if self.is_away:
            raise KafkaError("no broker is there")
        return self.gap

    def describe_gap(self, place: TopicPartition, gap: Gap, now_ms: int) -> Waiting:
        self.described.append(place)
        return Waiting(*place, gap.last_stable_offset, gap.high_watermark - gap.last_stable_offset, 1_000)


def looking(brokers: FakeBrokers, *times_ms: int) -> list[tuple[Waiting, ...]]:
    clock_ms = [0]
    watch = Watch(brokers, lambda: clock_ms[0])
    found = []
    for clock_ms[0] in times_ms:
        watch.look([PLACE])
        found.append(watch.waiting)
    return found


def test_brokers_are_asked_once_in_five_seconds_and_for_owners_once_in_thirty() -> None:
    brokers = FakeBrokers(p0=(5, 20))
    looking(brokers, *range(0, 30_000, 100))
    assert (brokers.looks, len(brokers.described)) == (6, 1)


def test_a_last_stable_offset_that_moves_is_not_waited_for() -> None:
    """Transactions that follow each other move it, each of them open when the brokers are asked."""
    brokers = FakeBrokers()
    clock_ms = [0]
    watch = Watch(brokers, lambda: clock_ms[0])
    for clock_ms[0] in range(0, 60_000, 5_000):
        brokers.gap = {PLACE: Gap(clock_ms[0], clock_ms[0] + 10)}
        watch.look([PLACE])
        assert watch.waiting == ()
    assert brokers.described == []


def test_it_waits_as_long_as_it_was_seen_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    *_, before, last, later = looking(FakeBrokers(p0=(5, 20)), 0, 5_000, 29_000, 34_000, 90_000)
    assert [each.for_ms for (each,) in (before, last, later)] == [29_000, 34_000, 90_000]
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


def test_only_the_owners_of_some_partitions_are_asked_for() -> None:
    brokers = FakeBrokers(**{f"p{number}": (5, 20) for number in range(30)})
    _, found = looking(brokers, 0, 5_000)
    assert (len(found), len(brokers.described)) == (30, 10)
    assert found[-1].records == 15 and "not asked" in (found[-1].unknown or "")


def test_brokers_that_are_away_stop_nothing() -> None:
    brokers = FakeBrokers(p0=(5, 20))
    brokers.is_away = True
    assert looking(brokers, 0, 5_000) == [(), ()]


class FakeAdmin:
    """Producer 7 has a transaction open in `t-0` since offset 5; `refused` are the questions that are refused."""

    def __init__(self, *refused: str, state: str = "Ongoing", is_listed: bool = True) -> None:
        self.refused = refused
        self.state = state
        self.is_listed = is_listed

    def describe_producers(self, place: TopicPartition) -> list[ProducerState]:
        self._ask("producers", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return [ProducerState(9, 0, 0, 3, 800, -1), ProducerState(7, 1, 0, 3, 900, 5)]

    def find_transactions(self, producer_ids: Sequence[int]) -> list[ListedTransaction]:
        assert list(producer_ids) == [7]
        return [ListedTransaction("mover", 1, 7, self.state)] if self.is_listed else []

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        self._ask("transaction", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return TransactionDescription(transactional_id, self.state, 7, 1, 60_000, 600, (PLACE,))

    def _ask(self, what: str, code: ErrorCode) -> None:
        if what in self.refused:
            raise KafkaError(code=code)


def described(*refused: str, **more: Any) -> Waiting:
    admin: Any = FakeAdmin(*refused, **more)
    return describe(admin, PLACE, Gap(5, 20), 1_000)


def test_an_open_transaction_has_its_id_its_age_and_the_command_that_ends_it() -> None:
    found = described()
    assert (found.transactional_id, found.producer_id, found.for_ms, found.begun_ms) == ("mover", 7, 400, 600)
    assert (found.command, found.unknown) == ("oncelog txn fence mover", None)


def test_a_decided_transaction_has_no_command_for_nothing_aborts_it() -> None:
    found = described(state="PrepareCommit")
    assert (found.transactional_id, found.state, found.command) == ("mover", "PrepareCommit", None)
    assert "(PrepareCommit)" in str(found)


@pytest.mark.parametrize(
    ("refused", "more", "producer_id", "reason"),
    [
        (("producers",), {}, None, "TOPIC_AUTHORIZATION_FAILED"),
        (("transaction",), {}, 7, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        ((), {"is_listed": False}, 7, "no coordinator shows"),
        ((), {"state": "CompleteCommit"}, 7, "no coordinator shows"),
    ],
)
def test_what_the_brokers_do_not_say_is_not_known_and_the_rest_is_said(
    refused: tuple[str, ...], more: dict[str, Any], producer_id: int | None, reason: str
) -> None:
    found = described(*refused, **more)
    assert (found.records, found.producer_id, found.transactional_id) == (15, producer_id, None)
    assert reason in (found.unknown or "") and reason in str(found)
    assert found.command is None or "find-hanging" in found.command
