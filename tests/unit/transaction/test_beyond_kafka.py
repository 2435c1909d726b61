"""Where the protocol allows more than Apache Kafka does, it is given; with oncelog.compat=kafka, Kafka's own way.

What Kafka does was asked of Kafka 4.3 (`tests/conformance`) or read there: the epoch before the last bump is not in its
log, transactions over their time are looked for every ten seconds.
"""

from collections.abc import Callable

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse
from tests.clients.producer import TIMEOUT_MS, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker

KAFKA = "oncelog.compat=kafka"
CHECK_INTERVAL_MS = 10_000

Restart = Callable[[VirtualBroker], VirtualBroker]
RESTARTS: dict[str, Restart] = {
    "killed": lambda broker: broker.killed(),
    "without power": lambda broker: broker.crashed(seed=3),
}


def resume(broker: VirtualBroker, pair: tuple[int, int]) -> InitProducerIdResponse:
    """Send InitProducerId as a producer that keeps its own pair does (KIP-360)."""
    request = InitProducerIdRequest(
        transactional_id=TRANSACTIONAL_ID,
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=pair[0],
        producer_epoch=pair[1],
    )
    answer = broker.ask(request, 5)
    assert isinstance(answer, InitProducerIdResponse)
    return answer


@pytest.mark.parametrize("restart", RESTARTS.values(), ids=RESTARTS)
@pytest.mark.parametrize("level", [1, 2])
def test_a_producer_whose_new_epoch_was_lost_in_a_restart_is_given_it_again(restart: Restart, level: int) -> None:
    """Kafka fences it: its log lacks the epoch before the last bump."""
    broker = broker_with_topic(f"oncelog.feature.transaction.version={level}")
    producer = Producer(broker).init()
    bumped = resume(broker, producer.pair)
    broker = restart(broker)
    again = resume(broker, producer.pair)
    assert again.error_code == ErrorCode.NONE
    assert (again.producer_id, again.producer_epoch) == (bumped.producer_id, bumped.producer_epoch)


@pytest.mark.parametrize("before", ["oncelog.compat=oncelog", KAFKA])
def test_in_kafkas_way_that_producer_is_fenced_whatever_the_log_has(before: str) -> None:
    broker = broker_with_topic(before)
    producer = Producer(broker).init()
    resume(broker, producer.pair)
    assert resume(broker, producer.pair).error_code == ErrorCode.NONE
    assert resume(broker.killed(KAFKA), producer.pair).error_code == ErrorCode.PRODUCER_FENCED


def test_at_level_0_the_log_stays_readable_for_releases_without_tags_and_the_epoch_is_forgotten() -> None:
    broker = broker_with_topic("oncelog.feature.transaction.version=0")
    producer = Producer(broker).init()
    resume(broker, producer.pair)
    assert resume(broker.killed(), producer.pair).error_code == ErrorCode.PRODUCER_FENCED


def test_an_epoch_that_was_fenced_before_the_restart_stays_fenced() -> None:
    """A new instance forgets the epoch before its own: nothing in the log brings the zombie back."""
    broker = broker_with_topic()
    zombie = Producer(broker).init()
    resume(broker, zombie.pair)
    Producer(broker).init()
    assert resume(broker.killed(), zombie.pair).error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("settings", "late_ms"), [((), 0), ((KAFKA,), CHECK_INTERVAL_MS)])
@pytest.mark.parametrize("begins_after_ms", [0, 1, 3_700, 9_999])
def test_a_transaction_lasts_as_long_as_it_may_and_with_kafkas_way_until_the_next_look(
    settings: tuple[str, ...], late_ms: int, begins_after_ms: int
) -> None:
    broker = broker_with_topic(*settings)
    producer = Producer(broker).init()
    broker.let_pass(CHECK_INTERVAL_MS - broker.time.monotonic_ms() % CHECK_INTERVAL_MS + begins_after_ms)
    assert producer.add(0) == [ErrorCode.NONE]
    assert producer.produce() == ErrorCode.NONE
    # The time counts from the addition, and the next look after it is due a little later.
    past_ms = (begins_after_ms + TIMEOUT_MS) % CHECK_INTERVAL_MS
    lasts_ms = TIMEOUT_MS + (late_ms - past_ms if late_ms else 0)
    broker.let_pass(lasts_ms - 1)
    assert broker.broker.transactions.open_count == 1
    broker.let_pass(1)
    assert broker.broker.transactions.open_count == 0
    assert log_of(broker).last_stable_offset == log_of(broker).log_end_offset


def test_the_interval_of_kafkas_look_is_its_setting() -> None:
    broker = broker_with_topic(KAFKA, "transaction.abort.timed.out.transaction.cleanup.interval.ms=300")
    producer = Producer(broker).init()
    broker.let_pass(300 - broker.time.monotonic_ms() % 300)
    producer.add(0)
    broker.let_pass(TIMEOUT_MS + 199)
    assert broker.broker.transactions.open_count == 1
    broker.let_pass(1)
    assert broker.broker.transactions.open_count == 0


@pytest.mark.parametrize(("settings", "error"), [((), ErrorCode.PRODUCER_FENCED), ((KAFKA,), ErrorCode.NONE)])
def test_a_zombie_of_version_2_is_not_given_the_pair_of_its_classic_successor(
    settings: tuple[str, ...], error: ErrorCode
) -> None:
    """Kafka takes its late abort for a retry of what the successor has aborted, and both continue with one pair."""
    broker = broker_with_topic(*settings)
    zombie, successor = Producer(broker).init(), Producer(broker).init()
    assert successor.add(0) == [ErrorCode.NONE]
    assert successor.end(False, 3) == ErrorCode.NONE
    broker.let_pass(100)
    assert zombie.end(False, 5) == error
    assert (zombie.pair == successor.pair) is (error == ErrorCode.NONE)


@pytest.mark.parametrize(
    ("settings", "late_commit"), [((), ErrorCode.PRODUCER_FENCED), ((KAFKA,), ErrorCode.INVALID_TXN_STATE)]
)
def test_a_commit_that_its_timeout_has_overtaken_is_fenced_and_nothing_else_changes(
    settings: tuple[str, ...], late_commit: ErrorCode
) -> None:
    """KAFKA-20785: INVALID_TXN_STATE, which Kafka 4.3 gives, ends a thread of Kafka Streams for good."""
    broker = broker_with_topic(*settings)
    producer = Producer(broker).init()
    assert producer.add(0) == [ErrorCode.NONE]
    assert producer.produce(version=12) == ErrorCode.NONE
    broker.let_pass(TIMEOUT_MS + CHECK_INTERVAL_MS)
    assert producer.end(True, 3) == ErrorCode.PRODUCER_FENCED
    assert producer.end(True, 5) == late_commit
    # Its own abort is a retry of the coordinator's, and with what that gives it a commit of nothing is no retry.
    assert producer.end(False, 5) == ErrorCode.NONE
    assert producer.end(True, 5) == ErrorCode.INVALID_TXN_STATE


def stopped(broker: VirtualBroker) -> VirtualBroker:
    """Stop cleanly: the next start learns of producers from snapshots alone, and reads nothing of the log again."""
    assert broker.broker.logs.close() is None
    return broker.killed()


@pytest.mark.parametrize(("settings", "known_count"), [((), 5), (("oncelog.compat=kafka",), 1)])
def test_the_retries_of_five_batches_are_known_after_a_clean_stop(settings: tuple[str, ...], known_count: int) -> None:
    """Kafka's snapshot has the last batch alone: a retry of one before it is answered OUT_OF_ORDER there."""
    broker = broker_with_topic(*settings)
    producer = Producer(broker).init()
    producer.add(0)
    for sequence in range(6):
        assert producer.produce(sequence=sequence) == ErrorCode.NONE
    log_end_offset = log_of(broker).log_end_offset
    again = Producer(broker)
    again.broker = broker = stopped(broker)
    again.producer_id, again.producer_epoch = producer.pair
    first_known = 6 - known_count
    assert [again.produce(sequence=sequence) for sequence in range(first_known, 6)] == [ErrorCode.NONE] * known_count
    assert again.produce(sequence=first_known - 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log_of(broker).log_end_offset == log_end_offset
