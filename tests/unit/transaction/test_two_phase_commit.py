"""Transactions that an outer coordinator prepares, and commits or aborts later, in whatever process (KIP-939)."""

from collections.abc import Callable

import pytest

from oncelog.broker.coordinator.transaction.shard_life import SETTLE_MS
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.describe_producers_request import DescribeProducersRequest, TopicRequest
from tests.clients.producer import TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker
from tests.unit.transaction.test_crashes import visible
from tests.unit.transaction.two_phase import (
    NOTHING,
    TWO_PHASE,
    initialize,
    prepared,
    producer_of,
    state_of,
    taken_over,
    write,
)

E = ErrorCode
UNSTABLE = "unstable.api.versions.enable=true"
KAFKA = "oncelog.compat=kafka"
A_YEAR_MS = 365 * 24 * 3_600_000

Restart = Callable[[VirtualBroker], VirtualBroker]
RESTARTS = pytest.mark.parametrize(
    "restart",
    [lambda broker: broker, lambda broker: broker.killed(), lambda broker: broker.crashed(seed=1)],
    ids=["running", "killed", "without power"],
)
VERSIONS = pytest.mark.parametrize(("produce", "end"), [(12, 5), (11, 3), (11, 5)])
COMMITS = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


def offered(broker: VirtualBroker) -> int:
    answer = broker.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    return max(api.max_version for api in answer.api_keys if api.api_key == ApiKey.INIT_PRODUCER_ID)


def outcome(broker: VirtualBroker) -> tuple[list[list[bytes | None]], bool]:
    """The values that readers of committed records see, and whether nothing is left open."""
    logs = [log_of(broker, partition) for partition in (0, 1)]
    is_closed = all(log.last_stable_offset == log.log_end_offset for log in logs)
    return [visible(broker, partition) for partition in (0, 1)], is_closed


def epoch_in(broker: VirtualBroker, partition: int) -> int:
    """The epoch by which the partition itself fences, whatever the coordinator says."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[partition])])
    (producer,) = broker.ask(request, 0).topics[0].partitions[0].active_producers
    return int(producer.producer_epoch)


@pytest.mark.parametrize(
    ("settings", "maximum"),
    [((), 5), ((TWO_PHASE,), 6), ((UNSTABLE,), 6), ((TWO_PHASE, KAFKA), 5), ((TWO_PHASE, UNSTABLE, KAFKA), 6)],
)
def test_version_6_is_offered_and_served_where_it_was_asked_for(settings: tuple[str, ...], maximum: int) -> None:
    broker = broker_with_topic(*settings)
    assert offered(broker) == maximum
    if maximum == 6:
        assert initialize(broker, enables=False).error is E.NONE
    else:
        with pytest.raises(ProtocolError):
            initialize(broker, enables=False)


@pytest.mark.parametrize(
    ("settings", "on_enable", "on_keep"),
    [
        ((UNSTABLE,), E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, E.UNSUPPORTED_VERSION),
        ((UNSTABLE, TWO_PHASE), E.NONE, E.NONE),
        ((UNSTABLE, TWO_PHASE, KAFKA), E.NONE, E.UNSUPPORTED_VERSION),
    ],
)
def test_what_is_not_enabled_is_refused_in_kafkas_words(
    settings: tuple[str, ...], on_enable: ErrorCode, on_keep: ErrorCode
) -> None:
    broker = broker_with_topic(*settings)
    assert initialize(broker, enables=True).error is on_enable
    assert initialize(broker, enables=False, keeps=True).error is on_keep


def test_the_timeout_that_a_client_names_counts_only_without_two_phase_commit() -> None:
    broker = broker_with_topic(TWO_PHASE)
    for timeout_ms in (-1, 0, 2**31 - 1):
        assert initialize(broker, timeout_ms=timeout_ms).error is E.NONE
        assert initialize(broker, timeout_ms=timeout_ms, enables=False).error is E.INVALID_TRANSACTION_TIMEOUT


@RESTARTS
def test_a_prepared_transaction_is_never_ended_by_time(restart: Restart) -> None:
    producer = prepared()
    broker = restart(producer.broker)
    broker.let_pass(A_YEAR_MS)
    assert state_of(broker) == "Ongoing"
    assert producer_of(broker, producer.pair).end(True, 5) is E.NONE
    broker.let_pass(100)
    assert outcome(broker) == ([[b"value"], [b"value"]], True)


@pytest.mark.sampled(4)
@RESTARTS
@VERSIONS
@COMMITS
def test_the_next_instance_finds_what_is_prepared_and_ends_it(
    restart: Restart, produce: int, end: int, commit: bool
) -> None:
    first = prepared(version=produce)
    broker = restart(first.broker)
    second = taken_over(broker, first.pair)
    assert state_of(broker) == "Ongoing"
    broker = restart(broker)
    second = producer_of(broker, second.pair)
    assert second.end(commit, end) is E.NONE
    broker.let_pass(100)
    assert outcome(broker) == ([[b"value"], [b"value"]] if commit else [[], []], True)
    second.broker = broker = restart(broker)
    write(second, produce)
    assert second.end(True, end) is E.NONE
    broker.let_pass(100)
    assert outcome(broker)[1]


@VERSIONS
@COMMITS
def test_the_first_instance_is_fenced_by_the_coordinator_at_once_and_by_partitions_from_the_end_on(
    produce: int, end: int, commit: bool
) -> None:
    first = prepared(version=produce)
    second = taken_over(first.broker, first.pair)
    assert first.ask_end(commit, end).error_code == E.PRODUCER_FENCED
    assert first.add(0) == [E.PRODUCER_FENCED]
    assert second.end(commit, end) is E.NONE
    first.broker.let_pass(100)
    for partition in (0, 1):
        assert first.produce(partition, sequence=1, version=produce) is E.INVALID_PRODUCER_EPOCH
        assert epoch_in(first.broker, partition) > first.producer_epoch
    assert outcome(first.broker)[1]


def test_each_instance_that_keeps_fences_the_one_before_and_the_transaction_keeps_its_pair() -> None:
    first = prepared()
    broker = first.broker
    instances = [taken_over(broker, first.pair) for _ in range(3)]
    assert [instance.pair for instance in instances] == [(first.producer_id, epoch) for epoch in (1, 2, 3)]
    for zombie in (first, *instances[:2]):
        assert zombie.ask_end(True, 5).error_code == E.PRODUCER_FENCED
        assert zombie.ask_end(True, 3).error_code == E.PRODUCER_FENCED
    assert outcome(broker) == ([[], []], False)
    assert instances[2].end(True, 5) is E.NONE
    assert instances[2].pair == (first.producer_id, 4)


@pytest.mark.parametrize("has_ended", [True, False])
def test_with_nothing_open_there_is_nothing_to_keep(has_ended: bool) -> None:
    broker = broker_with_topic(TWO_PHASE)
    first = initialize(broker, keeps=True)
    assert first.ongoing == NOTHING
    if has_ended:
        producer = producer_of(broker, first.pair)
        write(producer)
        assert producer.end(True, 5) is E.NONE
        broker.let_pass(100)
    second = initialize(broker, keeps=True)
    assert (second.error, second.ongoing) == (E.NONE, NOTHING)
    assert second.pair == (first.pair[0], first.pair[1] + (2 if has_ended else 1))


def test_what_is_prepared_takes_nothing_more() -> None:
    first = prepared()
    second = taken_over(first.broker, first.pair)
    assert second.add(0) == [E.INVALID_TXN_STATE]
    for version in (11, 12):
        assert second.produce(0, version=version) is not E.NONE
    assert second.end(True, 5) is E.NONE
    first.broker.let_pass(100)
    assert outcome(first.broker) == ([[b"value"], [b"value"]], True)


@pytest.mark.parametrize("times_kept", [0, 1, 2])
def test_an_instance_that_does_not_keep_it_aborts_what_is_prepared(times_kept: int) -> None:
    """The way out for an operator: FenceProducers, or an instance that knows nothing of its predecessor."""
    first = prepared()
    broker = first.broker
    kept = [taken_over(broker, first.pair) for _ in range(times_kept)]
    assert initialize(broker).error is E.CONCURRENT_TRANSACTIONS
    broker.let_pass(100)
    last = initialize(broker)
    assert last.error is E.NONE
    assert outcome(broker) == ([[], []], True)
    for zombie in (first, *kept):
        assert zombie.ask_end(True, 5).error_code in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING)


def test_a_commit_that_arrives_late_does_not_commit_the_next_transaction() -> None:
    """The end bumps the epoch again, though taking over has done so: else the same request, delivered twice, would end
    the half-done transaction after."""
    first = prepared()
    second = taken_over(first.broker, first.pair)
    late = producer_of(first.broker, second.pair)
    assert second.end(True, 5) is E.NONE
    first.broker.let_pass(100)
    assert second.produce(0, version=12) is E.NONE
    assert late.ask_end(True, 5).error_code == E.PRODUCER_FENCED
    assert state_of(first.broker) == "Ongoing"


@pytest.mark.parametrize("end", [3, 5])
@COMMITS
def test_an_end_whose_answer_was_lost_is_answered_again(end: int, commit: bool) -> None:
    first = prepared()
    second = taken_over(first.broker, first.pair)
    retry = producer_of(first.broker, second.pair)
    answer = second.ask_end(commit, end)
    first.broker.let_pass(100)
    again = retry.ask_end(commit, end)
    assert again == answer
    opposite = retry.ask_end(not commit, end)
    assert opposite.error_code == (E.INVALID_TXN_STATE if commit or end < 5 else E.PRODUCER_FENCED)


def fast_forwarded(producer_epoch: int) -> Producer:
    broker = broker_with_topic(TWO_PHASE)
    producer = producer_of(broker, initialize(broker).pair)
    broker.broker.transactions.move_epoch_on(TRANSACTIONAL_ID, producer_epoch)
    broker.time.settle()
    producer.producer_epoch = producer_epoch
    return producer


@pytest.mark.sampled(7)
@RESTARTS
@pytest.mark.parametrize("start", [32_763, 32_764, 32_765, 32_766])
@pytest.mark.parametrize("end", [3, 5])
@COMMITS
def test_used_up_epochs_go_over_to_new_producer_ids_and_the_transaction_keeps_its_own(
    restart: Restart, start: int, end: int, commit: bool
) -> None:
    first = fast_forwarded(start)
    write(first)
    broker, last = first.broker, first
    for _ in range(3):
        broker = restart(broker)
        last = taken_over(broker, first.pair)
        assert last.pair != first.pair
    assert 0 <= last.producer_epoch <= 32_766
    retry = producer_of(broker, last.pair)
    assert last.end(commit, end) is E.NONE
    broker.let_pass(100)
    retry.broker = last.broker = broker = restart(broker)
    assert retry.end(commit, end) is E.NONE
    assert retry.pair == last.pair
    assert outcome(broker) == ([[b"value"], [b"value"]] if commit else [[], []], True)
    write(last)
    assert last.end(True, 5) is E.NONE
    broker.let_pass(100)
    assert outcome(broker)[1]


def test_an_instance_that_resumes_with_its_pair_keeps_too_and_its_retry_is_answered_again() -> None:
    first = prepared()
    broker = first.broker
    second = initialize(broker, keeps=True, pair=first.pair)
    assert (second.error, second.ongoing) == (E.NONE, first.pair)
    assert initialize(broker, keeps=True, pair=first.pair) == second
    assert initialize(broker.killed(), keeps=True, pair=first.pair) == second
    third = initialize(broker.killed(), keeps=True, pair=second.pair)
    assert third.pair == (first.producer_id, 2)
    assert initialize(broker, keeps=True, pair=(first.producer_id, 7)).error is E.PRODUCER_FENCED


@RESTARTS
@pytest.mark.parametrize("end", [1, 3, 5])
@COMMITS
def test_a_stored_pair_is_enough_to_end_a_transaction_from_another_process(
    restart: Restart, end: int, commit: bool
) -> None:
    """Flink's committer does so: no InitProducerId, no batch of its own, EndTxn with the pair from the checkpoint; and
    again if the answer was lost.
    """
    broker = broker_with_topic()
    writer = Producer(broker).init()
    write(writer, 11)
    broker.let_pass(2 * SETTLE_MS)
    broker = restart(broker)
    committer = producer_of(broker, writer.pair)
    assert committer.end(commit, end) is E.NONE
    broker.let_pass(100)
    again = producer_of(broker, writer.pair)
    assert again.end(commit, end) is E.NONE
    assert again.pair == committer.pair
    assert outcome(broker) == ([[b"value"], [b"value"]] if commit else [[], []], True)
    opposite = producer_of(broker, writer.pair).ask_end(not commit, end)
    assert opposite.error_code == (E.INVALID_TXN_STATE if commit or end < 5 else E.PRODUCER_FENCED)


def test_a_stored_pair_of_a_transaction_that_timed_out_is_fenced() -> None:
    broker = broker_with_topic()
    writer = Producer(broker).init()
    write(writer, 11)
    broker.let_pass(60_000)
    assert producer_of(broker, writer.pair).ask_end(True, 3).error_code == E.PRODUCER_FENCED
    assert producer_of(broker, writer.pair).ask_end(True, 5).error_code == E.PRODUCER_FENCED
    assert outcome(broker) == ([[], []], True)
