"""Offsets in transactions: visible with COMMIT, gone with ABORT, and never half (KIP-98, KIP-447, KIP-890)."""

import pytest

from oncelog.protocol.errors import ErrorCode
from tests.clients.group_members import GROUP, Member, commit, fetch, form, started
from tests.clients.offset_producer import TIMEOUT_MS, Producer

UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def test_an_offset_is_visible_once_its_transaction_is_committed_and_not_before() -> None:
    broker = started()
    commit(broker, 1)
    producer = Producer(broker).init()
    producer.commit_offset(5)
    assert fetch(broker) == (1, ErrorCode.NONE)
    producer.end(committed=True)
    assert fetch(broker) == (5, ErrorCode.NONE)


def test_an_offset_of_an_aborted_transaction_was_never_there() -> None:
    broker = started()
    commit(broker, 1)
    producer = Producer(broker).init()
    producer.commit_offset(5)
    producer.end(committed=False)
    assert fetch(broker, require_stable=True) == (1, ErrorCode.NONE)


def test_a_reader_of_stable_offsets_is_asked_to_wait_for_the_transaction() -> None:
    broker = started()
    producer = Producer(broker).init()
    producer.commit_offset(5, partition=1)
    assert fetch(broker, 1, require_stable=True) == UNSTABLE
    assert fetch(broker, 0, require_stable=True) == (-1, ErrorCode.NONE)
    assert fetch(broker, 1, group_id="other", require_stable=True) == (-1, ErrorCode.NONE)
    producer.end(committed=True)
    assert fetch(broker, 1, require_stable=True) == (5, ErrorCode.NONE)


def test_of_two_commits_the_later_record_wins_whichever_was_visible_first() -> None:
    broker = started()
    producer = Producer(broker).init()
    producer.commit_offset(5)
    commit(broker, 9)  # a plain commit, written later, while the transaction is open
    producer.end(committed=True)
    assert fetch(broker) == (9, ErrorCode.NONE)


def test_transactions_of_two_producers_do_not_touch_each_other() -> None:
    broker = started()
    one, two = Producer(broker, "one").init(), Producer(broker, "two").init()
    one.commit_offset(1, partition=0)
    two.commit_offset(2, partition=1)
    one.end(committed=False)
    assert fetch(broker, 1, require_stable=True) == UNSTABLE
    two.end(committed=True)
    assert fetch(broker, 0) == (-1, ErrorCode.NONE)
    assert fetch(broker, 1) == (2, ErrorCode.NONE)


def test_one_transaction_commits_for_several_groups() -> None:
    broker = started()
    producer = Producer(broker).init()
    producer.commit_offset(1, group_id="one")
    producer.commit_offset(2, group_id="two")
    producer.end(committed=True)
    assert (fetch(broker, group_id="one")[0], fetch(broker, group_id="two")[0]) == (1, 2)


def test_the_group_must_be_part_of_the_transaction_first() -> None:
    broker = started()
    producer = Producer(broker).init()
    assert producer.send_commit(5, version=3) == ErrorCode.INVALID_TXN_STATE
    assert producer.send_commit(5, version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert fetch(broker, require_stable=True) == (-1, ErrorCode.NONE)


def test_version_5_adds_the_group_by_itself() -> None:
    broker = started()
    producer = Producer(broker).init()
    assert producer.send_commit(5, version=5) == ErrorCode.NONE
    assert fetch(broker, require_stable=True) == UNSTABLE
    producer.end(committed=True)
    assert fetch(broker) == (5, ErrorCode.NONE)


@pytest.mark.parametrize("version", range(6))
def test_every_version_is_served(version: int) -> None:
    broker = started()
    producer = Producer(broker).init()
    producer.add_offsets()
    assert producer.send_commit(5, version=version) == ErrorCode.NONE
    producer.end(committed=True)
    assert fetch(broker) == (5, ErrorCode.NONE)


@pytest.mark.parametrize("version", range(6))
def test_a_fenced_producer_gets_the_error_of_its_version(version: int) -> None:
    broker = started()
    zombie = Producer(broker).init()
    zombie.commit_offset(5)
    Producer(broker).init()
    assert zombie.send_commit(6, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetch(broker, require_stable=True) == (-1, ErrorCode.NONE)


def test_a_commit_after_the_end_of_the_transaction_does_not_slip_in() -> None:
    broker = started()
    producer = Producer(broker).init()
    producer.commit_offset(5)
    producer.end(committed=True)
    assert producer.send_commit(6) == ErrorCode.INVALID_TXN_STATE
    assert fetch(broker, require_stable=True) == (5, ErrorCode.NONE)


def test_another_producers_id_is_refused() -> None:
    broker = started()
    producer = Producer(broker).init()
    producer.add_offsets()
    stranger = Producer(broker, producer_id=producer.producer_id + 1, producer_epoch=0)
    assert stranger.send_commit(5) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_that_times_out_takes_its_offsets_with_it() -> None:
    broker = started()
    commit(broker, 1)
    Producer(broker).init().commit_offset(5)
    broker.time.advance(TIMEOUT_MS - 1)
    assert fetch(broker, require_stable=True) == UNSTABLE
    broker.time.advance(1)
    assert fetch(broker, require_stable=True) == (1, ErrorCode.NONE)


def test_unknown_partitions_are_refused_each_on_its_own() -> None:
    broker = started(partition_count=1)
    producer = Producer(broker).init()
    producer.add_offsets()
    assert producer.send_commit(5, partition=1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.send_commit(5, topic="nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_empty_group_id_is_refused() -> None:
    producer = Producer(started()).init()
    assert producer.send_commit(5, group_id="") == ErrorCode.INVALID_GROUP_ID


class TestMembers:
    """A client that says which member of which generation it is, is held to it (KIP-447)."""

    def test_a_member_of_the_generation_commits(self) -> None:
        broker = started()
        member = Member(broker)
        form(member)
        producer = Producer(broker).init()
        producer.add_offsets()
        error = producer.send_commit(5, generation_id=member.generation_id, member_id=member.member_id)
        assert error == ErrorCode.NONE

    def test_a_zombie_of_an_older_generation_is_fenced(self) -> None:
        broker = started()
        member = Member(broker)
        form(member)
        producer = Producer(broker).init()
        producer.add_offsets()
        identity = {"generation_id": member.generation_id, "member_id": member.member_id}
        form(member)  # the leader joins again: a new generation
        assert producer.send_commit(5, **identity) == ErrorCode.ILLEGAL_GENERATION  # type: ignore[arg-type]
        assert fetch(broker, require_stable=True) == (-1, ErrorCode.NONE)

    def test_a_member_that_is_gone_is_unknown(self) -> None:
        broker = started()
        member = Member(broker)
        form(member)
        producer = Producer(broker).init()
        producer.add_offsets()
        member.leave()
        error = producer.send_commit(5, generation_id=member.generation_id, member_id=member.member_id)
        assert error == ErrorCode.UNKNOWN_MEMBER_ID

    def test_an_instance_that_another_process_has_taken_over_is_fenced(self) -> None:
        broker = started()
        member = Member(broker, group_instance_id="instance")
        form(member)
        Member(broker, group_instance_id="instance").join()
        producer = Producer(broker).init()
        producer.add_offsets()
        error = producer.send_commit(
            5, generation_id=member.generation_id, member_id=member.member_id, group_instance_id="instance"
        )
        assert error == ErrorCode.FENCED_INSTANCE_ID

    def test_a_generation_of_a_group_that_is_not_there_is_refused(self) -> None:
        producer = Producer(started()).init()
        producer.add_offsets()
        assert producer.send_commit(5, generation_id=1, member_id="m") == ErrorCode.ILLEGAL_GENERATION

    def test_a_commit_is_allowed_while_the_group_rebalances(self) -> None:
        broker = started()
        member = Member(broker)
        member.join()
        member.learn()
        producer = Producer(broker).init()
        producer.add_offsets()
        error = producer.send_commit(5, generation_id=member.generation_id, member_id=member.member_id)
        assert error == ErrorCode.NONE

    def test_without_members_any_client_may_commit(self) -> None:
        broker = started()
        member = Member(broker)
        form(member)
        member.leave()
        producer = Producer(broker).init()
        producer.add_offsets()
        assert producer.send_commit(5, member_id=member.member_id) == ErrorCode.NONE
        assert producer.send_commit(6) == ErrorCode.NONE

    def test_a_client_that_says_nothing_is_not_held_to_anything(self) -> None:
        broker = started()
        form(Member(broker))
        producer = Producer(broker).init()
        producer.add_offsets()
        assert producer.send_commit(5) == ErrorCode.NONE


class TestRestarts:
    def test_an_open_transaction_survives_and_can_still_go_either_way(self) -> None:
        for committed, offset in ((True, 5), (False, 1)):
            broker = started()
            commit(broker, 1)
            producer = Producer(broker).init()
            producer.commit_offset(5)
            producer.broker = broker.killed()
            assert fetch(producer.broker, require_stable=True) == UNSTABLE
            assert fetch(producer.broker) == (1, ErrorCode.NONE)
            producer.end(committed=committed)
            assert fetch(producer.broker, require_stable=True) == (offset, ErrorCode.NONE)

    def test_the_outcome_survives_a_power_cut(self) -> None:
        broker = started()
        producer = Producer(broker).init()
        producer.commit_offset(5)
        producer.end(committed=True)
        for seed in range(20):
            assert fetch(broker.crashed(seed), require_stable=True) == (5, ErrorCode.NONE)

    def test_a_power_cut_at_the_end_of_a_transaction_leaves_all_of_its_offsets_or_none(self) -> None:
        broker = started()
        producer = Producer(broker).init()
        producer.commit_offset(1, group_id="one")
        producer.commit_offset(2, group_id="two")
        producer.send_end(committed=True)
        for seed in range(20):
            after = broker.crashed(seed)
            after.time.advance(TIMEOUT_MS)
            found = (fetch(after, group_id="one")[0], fetch(after, group_id="two")[0])
            assert found == (1, 2)

    def test_group_ids_of_open_transactions_are_known(self) -> None:
        broker = started()
        Producer(broker).init().commit_offset(5, group_id=GROUP)
        assert fetch(broker.killed(), require_stable=True) == UNSTABLE
