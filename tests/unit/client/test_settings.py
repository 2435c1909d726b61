"""Settings, errors and states: the tables that others lean on."""

import copy
import dataclasses
from typing import Any

import pytest

from oncelog.client.consuming.consumer import Consumer
from oncelog.client.options.settings import ConsumerSettings, ProducerSettings
from oncelog.client.producing.partitioner import Partitioner
from oncelog.client.producing.transaction_states import VALID_PREVIOUS, TransactionState, check_move
from oncelog.client.values.errors import (
    AbortableError,
    ConfigError,
    FatalError,
    InvalidState,
    RetriableError,
    error_for,
)
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.partitioning import partition_for_key
from tests.support.tables import rows
from tools import option_types


@pytest.mark.interpreted  # of a compiled class there are no sources to read
def test_the_keyword_arguments_that_type_checkers_know_are_the_settings() -> None:
    """`make generate` writes them; a setting is declared once."""
    assert option_types.WRITTEN.read_text() == option_types.text()


@pytest.mark.parametrize(
    "options",
    [
        {"acks": 2},
        {"acks": 1, "enable_idempotence": True},
        {"acks": 1, "transactional_id": "x"},
        {"transactional_id": "x", "enable_idempotence": False},
        {"transactional_id": ""},
        {"compression_type": "rar"},
        {"max_in_flight_requests_per_connection": 6},
        {"max_in_flight_requests_per_connection": 0, "acks": 1},
    ],
)
def test_what_cannot_be_combined_is_refused_before_anything_is_sent(options: Any) -> None:
    with pytest.raises(ConfigError):
        ProducerSettings(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"isolation_level": "serializable"},
        {"auto_offset_reset": "none"},
        {"enable_auto_commit": True},
        {"partition_assignment_strategy": ["nearest"]},
        {"partition_assignment_strategy": []},
        {"group_protocol": "share"},
        {"group_protocol": "consumer", "session_timeout_ms": 6_000},
        {"group_protocol": "consumer", "partition_assignment_strategy": ["range"]},
        {"group_remote_assignor": "uniform"},
        {"heartbeat_interval_ms": 10, "session_timeout_ms": 10},
        {"group_id": ""},
        {"group_instance_id": "instance"},
    ],
)
def test_a_consumer_that_could_not_work_is_refused(options: Any) -> None:
    with pytest.raises(ConfigError):
        ConsumerSettings(**options)


@pytest.mark.parametrize(
    ("settings", "option"),
    [(ProducerSettings, "transactional_id"), (ConsumerSettings, "group_id"), (ConsumerSettings, "group_instance_id")],
)
def test_a_name_that_the_protocol_cannot_carry_is_refused_before_a_broker_hangs_up(settings: Any, option: str) -> None:
    for name, said in (("", "is empty"), ("x" * 32_768, "longer than 32,767 bytes"), (b"id", "must be a str")):
        with pytest.raises(ConfigError, match=rf"{option}.*{said}"):
            settings(**{"group_id": "g", option: name} if settings is ConsumerSettings else {option: name})
    longest = {"group_id": "x" * 32_767, "group_instance_id": "x" * 32_767, "transactional_id": "x" * 32_767}
    mine = {each.name for each in dataclasses.fields(settings)}
    assert getattr(settings(**{name: value for name, value in longest.items() if name in mine}), option)


def test_idempotence_goes_with_acks_all_unless_it_is_switched_off() -> None:
    assert ProducerSettings().is_idempotent
    assert not ProducerSettings(acks=1).is_idempotent
    assert not ProducerSettings(enable_idempotence=False).is_idempotent


@rows("code", [code for code in ErrorCode if code], lambda code: code.name)
def test_every_code_of_a_broker_is_of_exactly_one_kind_and_says_its_name(code: ErrorCode) -> None:
    error = error_for(code)
    kinds = [kind for kind in (RetriableError, AbortableError, FatalError, ConfigError) if isinstance(error, kind)]
    assert len(kinds) == 1
    assert error.code is code
    assert code.name in str(error)


def test_a_fenced_producer_can_only_ask_for_an_epoch_and_what_may_be_committed_is_never_aborted() -> None:
    for target, previous in VALID_PREVIOUS.items():
        allowed = target in (TransactionState.FATAL, TransactionState.UNINITIALIZED)
        assert allowed or TransactionState.FATAL not in previous
    with pytest.raises(InvalidState):
        check_move(TransactionState.COMMITTING, TransactionState.ABORTING)


def test_a_key_goes_where_java_sends_it_and_no_key_stays_until_a_batch_is_full() -> None:
    partitioner = Partitioner()
    led = (1, 1, 1)
    assert partitioner.partition("t", b"key", (1,) * 7) == partition_for_key(b"key", 7)
    first = partitioner.partition("t", None, led)
    assert {partitioner.partition("t", None, led) for _ in range(20)} == {first}
    partitioner.on_batch_full("t", 3)
    assert partitioner.partition("t", None, led) == (first + 1) % 3


def test_a_delivery_mode_sets_both_ends_and_contradictions_are_refused() -> None:
    read, written = ConsumerSettings(delivery="at_most_once", group_id="g"), ProducerSettings(delivery="at_most_once")
    assert (read.commit_before_return, read.enable_auto_commit) == (True, False)
    assert (written.acks_value, written.is_idempotent) == (0, False)
    read, written = ConsumerSettings(delivery="at_least_once", group_id="g"), ProducerSettings(delivery="at_least_once")
    assert (read.commit_before_return, read.enable_auto_commit) == (False, True)
    assert (written.acks_value, written.is_idempotent) == (-1, False)
    read, written = ConsumerSettings(delivery="exactly_once"), ProducerSettings(delivery="exactly_once")
    assert (read.commit_before_return, read.enable_auto_commit, read.reads_committed) == (False, False, True)
    assert (written.acks_value, written.is_idempotent) == (-1, True)
    with pytest.raises(ConfigError, match="acks=1 was passed"):
        ProducerSettings(delivery="exactly_once", acks=1)
    with pytest.raises(ConfigError, match="isolation_level='read_uncommitted' was passed"):
        ConsumerSettings(delivery="exactly_once", isolation_level="read_uncommitted")


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        (
            ProducerSettings,
            {"delivery": "at_most_once", "acks": "all"},
            "delivery='at_most_once' sets acks=0, and acks='all' was passed",
        ),
        (
            ConsumerSettings,
            {"delivery": "at_least_once", "enable_auto_commit": False, "group_id": "g"},
            "delivery='at_least_once' sets enable_auto_commit=True, and enable_auto_commit=False was passed",
        ),
        (
            ConsumerSettings,
            {"delivery": "at_most_once", "commit_before_return": False, "group_id": "g"},
            "sets commit_before_return=True, and commit_before_return=False was passed",
        ),
    ],
)
def test_a_delivery_mode_overrides_nothing_that_was_passed_not_even_a_default(
    settings: Any, options: Any, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(**options)


def test_what_a_delivery_mode_sets_may_be_passed_as_well() -> None:
    written = ProducerSettings(delivery="at_most_once", acks=0, enable_idempotence=None)
    assert dataclasses.replace(written, linger_ms=0).acks_value == 0
    assert ProducerSettings(delivery="exactly_once", acks=-1).is_idempotent
    same = ConsumerSettings(delivery="exactly_once", enable_auto_commit=False, isolation_level="read_committed")
    assert not copy.copy(same).enable_auto_commit


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        (
            ConsumerSettings,
            {"delivery": "at_least_once"},
            r"enable_auto_commit needs a group_id \(delivery='at_least_once' sets enable_auto_commit=True",
        ),
        (
            ConsumerSettings,
            {"delivery": "at_most_once"},
            r"commit_before_return needs a group_id \(delivery='at_most_once' sets commit_before_return=True",
        ),
        (ConsumerSettings, {"enable_auto_commit": True}, "^enable_auto_commit needs a group_id$"),
        (
            ProducerSettings,
            {"delivery": "at_least_once", "transactional_id": "q"},
            r"must be idempotent \(delivery='at_least_once' sets enable_idempotence=False\)",
        ),
        (
            ProducerSettings,
            {"delivery": "at_most_once", "transactional_id": "q"},
            r"transactions need acks='all' \(delivery='at_most_once' sets acks=0\)",
        ),
        (ProducerSettings, {"enable_idempotence": False, "transactional_id": "q"}, "leave enable_idempotence on"),
    ],
)
def test_an_error_about_what_a_delivery_mode_has_set_names_the_mode(settings: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        settings(**options)


def test_a_pattern_that_is_none_is_refused_and_so_are_topics_beside_it() -> None:
    with pytest.raises(ConfigError, match="not a regular expression"):
        ConsumerSettings(pattern="orders-(")
    with pytest.raises(ConfigError, match="exclude each other"):
        Consumer("orders", pattern="orders-.*")


async def test_a_batch_does_not_wait_to_fill_where_auto_commit_would_commit_it_meanwhile() -> None:
    consumer = Consumer("orders", group_id="billing", enable_auto_commit=True)
    with pytest.raises(ConfigError, match="exclude each other"):
        await anext(consumer.batches(max_wait_ms=10))
    with pytest.raises(ConfigError, match="exclude each other"):
        await consumer.next_batch(max_wait_ms=10)
