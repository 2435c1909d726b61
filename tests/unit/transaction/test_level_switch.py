"""transaction.version is switched while the broker runs, with transactions in flight in every state: they end, as their
producers asked, and clients see the new level in the next ApiVersions."""

import pytest

from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from tests.clients.producer import TIMEOUT_MS, TOPIC, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker
from tests.unit.transaction.test_crashes import visible
from tests.unit.transaction.two_phase import state_of

pytestmark = pytest.mark.sampled(3)

E = ErrorCode
UPGRADE, SAFE_DOWNGRADE = 1, 2
SWITCHES = pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (0, 2), (2, 0)])
RESTARTS = pytest.mark.parametrize("restarts", [False, True], ids=["running", "killed"])
COMMITS = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])


def switch(broker: VirtualBroker, level: int) -> VirtualBroker:
    """Switch the level; each client that asks from now on sees it, by a higher epoch."""
    before, epoch = finalized(broker)
    kind = UPGRADE if level > before else SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
    assert broker.ask(UpdateFeaturesRequest(feature_updates=[update]), 1).error_code == E.NONE
    assert finalized(broker)[0] == level
    assert finalized(broker)[1] > epoch
    return broker


def finalized(broker: VirtualBroker) -> tuple[int, int]:
    """The level, and the epoch of all features."""
    answer = broker.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    return levels.get("transaction.version", 0), answer.finalized_features_epoch


def started(level: int) -> Producer:
    return Producer(broker_with_topic(f"oncelog.feature.transaction.version={level}")).init()


def write(producer: Producer, level: int, sequence: int = 0) -> None:
    """Write as a client does that believes in the level."""
    if level < 2:
        assert producer.add(0) == [E.NONE]
    assert producer.produce(sequence=sequence, version=12 if level == 2 else 11) is E.NONE


def end_version(level: int) -> int:
    return 5 if level == 2 else 4


def gone_on(producer: Producer, restarts: bool) -> Producer:
    if restarts:
        producer.broker = producer.broker.killed()
    return producer


def check_next(producer: Producer, level: int, sequence: int) -> None:
    """Require that the producer continues by the new level, without InitProducerId."""
    write(producer, level, sequence)
    assert producer.end(True, end_version(level)) is E.NONE
    producer.broker.let_pass(200)
    log = log_of(producer.broker)
    assert log.last_stable_offset == log.log_end_offset
    assert producer.broker.broker.transactions.open_count == 0


@SWITCHES
@RESTARTS
@COMMITS
@pytest.mark.parametrize("client_is_told", [True, False])
def test_an_open_transaction_is_ended_by_either_protocol(
    before: int, after: int, restarts: bool, commit: bool, client_is_told: bool
) -> None:
    producer = started(before)
    write(producer, before)
    switch(producer.broker, after)
    gone_on(producer, restarts)
    by = end_version(after if client_is_told else before)
    assert producer.end(commit, by) is E.NONE
    producer.broker.let_pass(200)
    assert visible(producer.broker, 0) == ([b"value"] if commit else [])
    # By the classic protocol the producer keeps its identity, and with it the sequence of its batches.
    check_next(producer, after, sequence=1 if by < 5 else 0)


@SWITCHES
@RESTARTS
def test_an_open_transaction_is_ended_by_its_timeout(before: int, after: int, restarts: bool) -> None:
    producer = started(before)
    write(producer, before)
    switch(producer.broker, after)
    gone_on(producer, restarts)
    producer.broker.let_pass(TIMEOUT_MS + 200)
    assert state_of(producer.broker) == "CompleteAbort"
    assert visible(producer.broker, 0) == []
    producer.init()
    check_next(producer, after, sequence=0)


@SWITCHES
@RESTARTS
@COMMITS
def test_markers_on_their_way_arrive(before: int, after: int, restarts: bool, commit: bool) -> None:
    producer = started(before)
    write(producer, before)
    rule = producer.broker.faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(topic=TOPIC), times=1))
    assert producer.end(commit, end_version(before)) is E.NONE
    assert state_of(producer.broker) == ("PrepareCommit" if commit else "PrepareAbort")
    switch(producer.broker, after)
    if restarts:
        gone_on(producer, restarts)
    else:
        assert producer.broker.faults.release(rule) == 1
    producer.broker.let_pass(200)
    assert visible(producer.broker, 0) == ([b"value"] if commit else [])
    check_next(producer, after, sequence=1 if before < 2 else 0)


@SWITCHES
@RESTARTS
@COMMITS
def test_a_lost_response_to_an_end_is_repeated(before: int, after: int, restarts: bool, commit: bool) -> None:
    producer = started(before)
    write(producer, before)
    retry = Producer(producer.broker)
    retry.producer_id, retry.producer_epoch = producer.pair
    assert producer.end(commit, end_version(before)) is E.NONE
    producer.broker.let_pass(200)
    switch(producer.broker, after)
    gone_on(producer, restarts)
    retry.broker = producer.broker
    assert retry.end(commit, end_version(before)) is E.NONE
    assert retry.pair == producer.pair
    check_next(producer, after, sequence=1 if before < 2 else 0)


@SWITCHES
@RESTARTS
def test_an_id_with_nothing_open_begins_by_the_new_level(before: int, after: int, restarts: bool) -> None:
    producer = started(before)
    switch(producer.broker, after)
    check_next(gone_on(producer, restarts), after, sequence=0)


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("is_later", [False, True])
@RESTARTS
def test_a_producer_id_that_was_promised_at_the_last_epoch_is_given(after: int, is_later: bool, restarts: bool) -> None:
    """The level falls before or after the end that has used the epochs up, and its markers come later."""
    producer = started(2)
    producer.broker.broker.transactions.move_epoch_on(producer.transactional_id, 32_766)
    producer.broker.time.settle()
    producer.producer_epoch = 32_766
    write(producer, 2)
    rule = producer.broker.faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(topic=TOPIC), times=1))
    old_id = producer.producer_id
    if not is_later:
        switch(producer.broker, after)
    assert producer.end(True, 5) is E.NONE
    assert producer.producer_id != old_id
    if is_later:
        switch(producer.broker, after)
    if restarts:
        gone_on(producer, restarts)
    else:
        assert producer.broker.faults.release(rule) == 1
    producer.broker.let_pass(200)
    check_next(producer, after, sequence=0)
