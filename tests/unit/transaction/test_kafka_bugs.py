"""The bugs around transactions that Apache Kafka had to fix, each a scenario by its number, on a whole broker.

A scenario says what a broker with the bug does. Where the bug can be put back by a patch of a line, it is: then the
scenario must fail (`BUGS`, `planted_bugs`), or it would prove nothing.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata
from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.records.batch import iter_batches
from tests.clients.administration import set_feature
from tests.clients.producer import TIMEOUT_MS, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import read_records
from tests.unit.transaction import planted_bugs

E = ErrorCode
LAST, FENCE = 32_766, 32_767
NUMBERS = (17754, 18042, 18202, 18660, 19367, 19446, 19690, 19999, 20090, 20310, 20322)
LEVEL_1 = "oncelog.feature.transaction.version=1"


# --- what the scenarios do --------------------------------------------------------------------------------------------


def at_epoch(producer: Producer, epoch: int) -> Producer:
    """The producer as if its epochs up to this one had been used."""
    producer.broker.broker.transactions.move_epoch_on(producer.transactional_id, epoch)
    producer.broker.time.settle()
    producer.producer_epoch = epoch
    return producer


def same(producer: Producer, *, epoch: int | None = None) -> Producer:
    """Another client object with the same pair."""
    copy = Producer(producer.broker, producer.transactional_id)
    copy.producer_id, copy.producer_epoch = producer.producer_id, producer.producer_epoch if epoch is None else epoch
    return copy


def described(broker: VirtualBroker) -> TransactionMetadata:
    return broker.broker.transactions.describe(TRANSACTIONAL_ID).result()


def ask_init(producer: Producer) -> Any:
    """Send InitProducerId as a new instance does."""
    request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TIMEOUT_MS)
    return producer.broker.ask(request, 4)


def epochs_in(broker: VirtualBroker) -> list[tuple[int, int, bool]]:
    """Producer id, epoch, and whether it is a marker, of each batch on the first partition."""
    records = read_records(log_of(broker), 0, 1 << 20, FetchIsolation.LOG_END).records
    return [(header.producer_id, header.producer_epoch, header.is_control) for header, _ in iter_batches(records)]


def is_stable(broker: VirtualBroker) -> bool:
    return log_of(broker).last_stable_offset == log_of(broker).log_end_offset


def hold(broker: VirtualBroker, point: Point, action: Action = Action.HOLD, of: Selector | None = None) -> Any:
    return broker.faults.plant(Rule(point, action, of or Selector()))


def let_go(broker: VirtualBroker, rule: Any) -> None:
    broker.faults.remove(rule)
    broker.time.settle()


# --- the scenarios ----------------------------------------------------------------------------------------------------


def test_kafka_18660_over_the_last_epoch_the_answer_has_the_new_id_and_its_first_request_has_to_retry() -> None:
    """The bug: EndTxn answered the old id with the epoch 0; and the new id, answered too early, was an unknown one
    (INVALID_PRODUCER_ID_MAPPING, which is fatal) until COMPLETE was logged.
    """
    broker = broker_with_topic()
    producer = at_epoch(Producer(broker).init(), LAST)
    old_id = producer.producer_id
    assert producer.produce(version=12) is E.NONE
    held = hold(broker, Point.MARKER)
    assert producer.end(version=5) is E.NONE
    assert producer.producer_id != old_id and producer.producer_epoch == 0
    assert producer.add(0) == [E.CONCURRENT_TRANSACTIONS]
    let_go(broker, held)
    assert producer.add(0) == [E.NONE]
    assert producer.produce() is E.NONE


def test_kafka_19367_a_new_instance_over_an_open_transaction_moves_the_epoch_once() -> None:
    """The bug: the fence bumped, and so did its abort; at 32766 the epoch became -32768."""
    for epoch in (0, 1, LAST):
        broker = broker_with_topic()
        old = at_epoch(Producer(broker).init(), epoch) if epoch else Producer(broker).init()
        assert old.produce(version=12) is E.NONE
        assert ask_init(old).error_code == E.CONCURRENT_TRANSACTIONS
        assert epochs_in(broker)[-1] == (old.producer_id, epoch + 1, True)
        expected = ProducerIdAndEpoch(old.producer_id, epoch + 1)
        if epoch < LAST:
            assert described(broker).producer == expected
        new = Producer(broker).init()
        assert new.pair == ((old.producer_id, epoch + 2) if epoch < LAST else (new.producer_id, 1))
        assert (new.producer_id == old.producer_id) is (epoch < LAST)


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("epoch", [5, LAST])
def test_kafka_19690_a_batch_that_comes_after_its_transaction_timed_out_is_of_an_old_epoch(
    version: int, epoch: int
) -> None:
    """The bug: the batch, verified before, met a marker that took its verification away, and got INVALID_TXN_STATE,
    which is fatal; with its epoch the client can continue.
    """
    broker = broker_with_topic()
    producer = at_epoch(Producer(broker).init(), epoch)
    assert producer.produce(version=12) is E.NONE
    held = hold(broker, Point.REQUEST, of=Selector(api=ApiKey.PRODUCE))
    late = producer.start_produce(sequence=1, version=version)
    broker.let_pass(TIMEOUT_MS)
    assert is_stable(broker)
    let_go(broker, held)
    assert late.message.responses[0].partition_responses[0].error_code == E.INVALID_PRODUCER_EPOCH
    assert is_stable(broker)


@pytest.mark.parametrize("version", range(3, 13))
def test_kafka_18042_a_lower_epoch_is_refused_before_its_coordinator_is_asked(version: int) -> None:
    """The bug: Produce asked the coordinator first, to add the partition or to verify it. After a rotation that does
    not know the producer id any more, and its answer is fatal to a client that could have started again.
    """
    broker = broker_with_topic()
    producer = at_epoch(Producer(broker).init(), LAST)
    old = same(producer)
    assert producer.produce(version=12) is E.NONE
    assert producer.end(version=5) is E.NONE
    before = described(broker)
    assert old.produce(sequence=1, version=version) is E.INVALID_PRODUCER_EPOCH
    assert described(broker) == before


@pytest.mark.parametrize("sequence", [1, 3, 2**31 - 1])
def test_kafka_18202_the_first_sequence_of_version_2_is_0_even_where_nothing_is_known(sequence: int) -> None:
    """The bug: a partition without state took any sequence, and so a second batch whose first one had been lost."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    assert producer.produce(sequence=sequence, version=12) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log_of(broker).log_end_offset == 0
    assert producer.produce(version=12) is E.NONE


def test_kafka_19446_a_marker_that_comes_late_does_not_end_the_next_transaction() -> None:
    """The bug: the marker's epoch was the next transaction's own, and so it was taken for that transaction's end: half
    of it was committed."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    copy = hold(broker, Point.MARKER, Action.DUPLICATE)
    assert producer.produce(version=12) is E.NONE
    assert producer.end(version=5) is E.NONE
    assert producer.produce(version=12) is E.NONE
    end = log_of(broker).log_end_offset
    let_go(broker, copy)
    assert log_of(broker).log_end_offset == end, "the marker was written"
    assert not is_stable(broker)
    assert producer.end(False, version=5) is E.NONE
    assert is_stable(broker)


def test_kafka_19999_a_marker_that_was_written_before_the_coordinator_was_reloaded_is_taken_again() -> None:
    """The bug, of the fix for KAFKA-19446: a marker with the epoch that the partition has by that very marker was
    refused, and sent for ever: the transactional id never became free."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    assert producer.produce(version=12) is E.NONE
    hold(broker, Point.MARKER_WRITTEN)
    assert producer.end(version=5) is E.NONE
    assert described(broker).state.kafka_name == "PrepareCommit" and is_stable(broker)
    survivor = broker.killed()
    survivor.let_pass(1_000)
    assert described(survivor).state.kafka_name == "CompleteCommit"
    producer.broker = survivor
    assert producer.produce(version=12) is E.NONE


def test_kafka_20090_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    """The bug: a fence of version 1 took 32767, and each later request was refused, for good."""
    broker = broker_with_topic(LEVEL_1)
    old = at_epoch(Producer(broker).init(), LAST)
    assert old.add(0) == [E.NONE]
    assert old.produce() is E.NONE
    assert ask_init(old).error_code == E.CONCURRENT_TRANSACTIONS
    assert described(broker).producer_epoch == FENCE
    assert is_stable(broker)
    new = Producer(broker).init()
    assert new.producer_id != old.producer_id and new.producer_epoch == 0
    assert new.add(0) == [E.NONE]
    assert new.produce() is E.NONE
    # Who makes the fence up, and is let in, does not stick there either.
    broker = broker_with_topic(LEVEL_1)
    made_up = at_epoch(Producer(broker).init(), LAST)
    made_up.add(0)
    ask_init(made_up)
    made_up.producer_epoch = FENCE
    assert made_up.add(0) == [E.NONE]
    assert ask_init(made_up).error_code == E.CONCURRENT_TRANSACTIONS
    assert Producer(broker).init().producer_epoch == 0


@pytest.mark.parametrize("stop", ["before the markers", "after COMPLETE"])
def test_kafka_20310_an_end_over_the_last_epoch_is_answered_again_after_a_restart(stop: str) -> None:
    """The bug: the ids before and after a rotation were not in the log: a client whose answer was lost in a restart had
    an id that was unknown (INVALID_PRODUCER_ID_MAPPING), or the restart gave out another new one.
    """
    broker = broker_with_topic()
    producer = at_epoch(Producer(broker).init(), LAST)
    assert producer.produce(version=12) is E.NONE
    if stop == "before the markers":
        hold(broker, Point.MARKER)
    lost = same(producer)
    assert producer.end(version=5) is E.NONE
    survivor = broker.killed()
    lost.broker = survivor
    again = lost.ask_end(True, 5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (E.NONE, *producer.pair)
    assert lost.ask_end(False, 5).error_code == E.INVALID_TXN_STATE


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_kafka_20322_a_broker_that_comes_back_with_another_level_serves_what_was_begun_before(
    before: int, after: int
) -> None:
    """The bug was the client's: over a rolling upgrade it kept the versions of another broker. What a broker owes it:
    the new level in ApiVersions by a later epoch of the features, and both protocols at either level.
    """
    broker = broker_with_topic(f"oncelog.feature.transaction.version={before}")
    told = broker.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    producer = Producer(broker).init()
    if before == 1:
        assert producer.add(0) == [E.NONE]
    assert producer.produce(version=11 if before == 1 else 12) is E.NONE
    assert set_feature(broker, "transaction.version", after, upgrade_type=1 if after == 2 else 2) is E.NONE
    survivor = broker.killed()
    producer.broker = survivor
    told_again = survivor.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    levels = {each.name: each.max_version_level for each in told_again.finalized_features}
    assert levels["transaction.version"] == after
    assert told_again.finalized_features_epoch > told.finalized_features_epoch >= 0
    assert producer.produce(sequence=1, version=11 if before == 1 else 12) is E.NONE
    assert producer.end(version=3 if before == 1 else 5) is E.NONE
    assert is_stable(survivor)
    follow = Producer(survivor).init()
    assert follow.add(0) == [E.NONE]
    assert follow.produce() is E.NONE
    assert follow.end(version=3) is E.NONE
    assert follow.produce(sequence=1, version=12) is E.NONE
    assert follow.end(version=5) is E.NONE
    assert is_stable(survivor)


def late_end(version: int) -> tuple[Any, VirtualBroker, Producer]:
    """A copy of the first transaction's EndTxn arrives while the second one, on two partitions, is half written."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    copy = broker.faults.plant(Rule(Point.REQUEST, Action.DUPLICATE, Selector(api=ApiKey.END_TXN)))
    produce_version = 12 if version >= 5 else 11

    def write(partition: int, sequence: int) -> ErrorCode:
        if version < 5:
            assert producer.add(partition) == [E.NONE]
        return producer.produce(partition, sequence=sequence, version=produce_version)

    assert write(0, 0) is E.NONE
    assert write(1, 0) is E.NONE
    assert producer.end(version=version) is E.NONE
    next_sequence = 0 if version >= 5 else 1
    assert write(0, next_sequence) is E.NONE
    let_go(broker, copy)
    return copy, broker, producer


def test_kafka_17754_an_end_that_comes_late_does_not_touch_the_next_transaction_of_version_2() -> None:
    """The bug, of the protocol before KIP-890: nothing distinguishes the copy from the second transaction's own end."""
    copy, broker, producer = late_end(5)
    assert copy.fired_count == 1
    assert described(broker).state.kafka_name == "Ongoing"
    assert not is_stable(broker)
    assert producer.produce(1, version=12) is E.NONE
    assert producer.end(False, version=5) is E.NONE
    assert all(log_of(broker, partition).last_stable_offset == 4 for partition in (0, 1))


def test_kafka_17754_tears_a_transaction_of_version_1_as_its_protocol_cannot_forbid() -> None:
    """Half of the second transaction is committed by the copy, and its producer aborts the other half. Were this to
    fail, version 1 would have become better than Kafka's, and docs would have to say so."""
    _, broker, producer = late_end(3)
    assert described(broker).state.kafka_name == "CompleteCommit"
    assert is_stable(broker)
    assert producer.add(1) == [E.NONE]
    assert producer.produce(1, sequence=1) is E.NONE
    assert producer.end(False) is E.NONE
    log = log_of(broker, 1)
    assert log.last_stable_offset == log.log_end_offset == 4


def test_kafka_17754_a_batch_that_comes_late_is_not_taken_into_the_next_transaction() -> None:
    """Its epoch is over under version 2; under version 1 it fits into the transaction that is open then."""
    for version, expected in ((12, E.INVALID_PRODUCER_EPOCH), (11, E.NONE)):
        broker = broker_with_topic()
        producer = Producer(broker).init()
        late = same(producer)
        end_version = 5 if version == 12 else 3
        if version == 11:
            assert producer.add(0) == [E.NONE]
        assert producer.produce(version=version) is E.NONE
        assert producer.end(False, version=end_version) is E.NONE
        if version == 11:
            assert producer.add(0) == [E.NONE]
        else:
            assert producer.produce(version=version) is E.NONE
        assert late.produce(sequence=1, version=version) is expected


# --- the bugs put back ------------------------------------------------------------------------------------------------

BUGS: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[..., None], tuple[Any, ...]]] = [
    (
        planted_bugs.pid_before_pending,
        test_kafka_18660_over_the_last_epoch_the_answer_has_the_new_id_and_its_first_request_has_to_retry,
        (),
    ),
    (
        planted_bugs.answers_the_old_id,
        test_kafka_18660_over_the_last_epoch_the_answer_has_the_new_id_and_its_first_request_has_to_retry,
        (),
    ),
    (planted_bugs.bumps_twice, test_kafka_19367_a_new_instance_over_an_open_transaction_moves_the_epoch_once, ()),
    (
        planted_bugs.asks_the_coordinator_first,
        test_kafka_19690_a_batch_that_comes_after_its_transaction_timed_out_is_of_an_old_epoch,
        (11, LAST),
    ),
    (
        planted_bugs.asks_the_coordinator_first,
        test_kafka_18042_a_lower_epoch_is_refused_before_its_coordinator_is_asked,
        (12,),
    ),
    (
        planted_bugs.takes_any_first_sequence,
        test_kafka_18202_the_first_sequence_of_version_2_is_0_even_where_nothing_is_known,
        (1,),
    ),
    (planted_bugs.marker_of_version_1, test_kafka_19446_a_marker_that_comes_late_does_not_end_the_next_transaction, ()),
    (
        planted_bugs.refuses_an_equal_epoch,
        test_kafka_19999_a_marker_that_was_written_before_the_coordinator_was_reloaded_is_taken_again,
        (),
    ),
    (planted_bugs.sticks_at_the_fence, test_kafka_20090_the_last_epoch_is_followed_by_a_new_producer_id, ()),
    (
        planted_bugs.keeps_no_rotation,
        test_kafka_20310_an_end_over_the_last_epoch_is_answered_again_after_a_restart,
        ("before the markers",),
    ),
    (
        planted_bugs.keeps_no_rotation,
        test_kafka_20310_an_end_over_the_last_epoch_is_answered_again_after_a_restart,
        ("after COMPLETE",),
    ),
    (
        planted_bugs.takes_every_end_for_the_current_one,
        test_kafka_17754_an_end_that_comes_late_does_not_touch_the_next_transaction_of_version_2,
        (),
    ),
]


@pytest.mark.parametrize(("bug", "scenario", "arguments"), BUGS, ids=[bug.__name__ for bug, *_ in BUGS])
@pytest.mark.interpreted
def test_the_scenario_fails_in_a_broker_that_has_the_bug(
    bug: Callable[[pytest.MonkeyPatch], None], scenario: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError):
        bug(patch)
        scenario(*arguments)


def test_every_bug_has_a_scenario_by_its_number() -> None:
    named = re.findall(r"^def test_kafka_(\d{5})_", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(number) for number in named} == set(NUMBERS)
