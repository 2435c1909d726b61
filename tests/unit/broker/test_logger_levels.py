"""The levels of the broker's loggers, as Kafka's API sets and shows them.

What is expected is what Apache Kafka 4.3 answered about one of its own loggers, whose name stands here for ours.
"""

import io
from collections.abc import Iterator

import pytest
import structlog

from oncelog.broker.observability.logging import REQUESTS, TRANSACTIONS, logger_of, start_logging
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.fakes.broker import VirtualBroker

BROKER_LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]


@pytest.fixture
def virtual() -> Iterator[VirtualBroker]:
    running = VirtualBroker()
    running.broker.logger = start_logging("info", io.StringIO())
    for name in (REQUESTS, TRANSACTIONS):
        logger_of(running.broker.logger, name)
    yield running
    structlog.reset_defaults()


def alter(virtual: VirtualBroker, *changes: Change, validate_only: bool = False) -> tuple[int, str | None]:
    configs = [
        AlterableConfig(name=name, config_operation=operation, value=value) for name, operation, value in changes
    ]
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name="1", configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = virtual.ask(request, 1).responses
    return response.error_code, response.error_message


def shown(virtual: VirtualBroker, *names: str) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name="1", configuration_keys=names or None)
    (result,) = virtual.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == 0
    return {each.name: each.value for each in result.configs}


def test_every_logger_is_listed_with_its_level(virtual: VirtualBroker) -> None:
    assert shown(virtual) == dict.fromkeys(("root", REQUESTS, TRANSACTIONS), "INFO")
    assert shown(virtual, "no.such.logger") == {}


def test_a_logger_keeps_its_level_while_the_roots_changes_and_has_the_roots_once_it_is_deleted(
    virtual: VirtualBroker,
) -> None:
    steps: tuple[tuple[Change, str, str], ...] = (
        ((REQUESTS, SET, "DEBUG"), "INFO", "DEBUG"),
        (("root", SET, "ERROR"), "ERROR", "DEBUG"),
        ((REQUESTS, DELETE, None), "ERROR", "ERROR"),
        ((REQUESTS, DELETE, None), "ERROR", "ERROR"),
        (("root", SET, "WARN"), "WARN", "WARN"),
    )
    for change, root, requests in steps:
        assert alter(virtual, change) == (0, None)
        assert shown(virtual, "root", REQUESTS) == {"root": root, REQUESTS: requests}


_INVALID_CONFIG, _INVALID_REQUEST = 40, 42
_LEVELS = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (("nope", SET, "INFO"), _INVALID_CONFIG, "Logger nope does not exist!"),
        (("nope", DELETE, None), _INVALID_CONFIG, "Logger nope does not exist!"),
        (("kafka.request", SET, "INFO"), _INVALID_CONFIG, "Logger kafka.request does not exist!"),
        (("root", DELETE, None), _INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        *(
            (
                (REQUESTS, SET, level),
                _INVALID_CONFIG,
                f"Cannot set the log level of {REQUESTS} to {level} as it is not a supported log level. {_LEVELS}",
            )
            for level in ("debug", "OFF", "")
        ),
        *(
            (
                (REQUESTS, operation, "DEBUG"),
                _INVALID_REQUEST,
                f"{name} operation is not allowed for the BROKER_LOGGER resource",
            )
            for operation, name in ((APPEND, "APPEND"), (SUBTRACT, "SUBTRACT"))
        ),
    ],
)
def test_what_is_refused_is_refused_in_kafkas_words_and_changes_nothing(
    virtual: VirtualBroker, change: Change, code: int, message: str
) -> None:
    before = shown(virtual)
    assert alter(virtual, (TRANSACTIONS, SET, "DEBUG"), change) == (code, message)
    assert shown(virtual) == before


def test_a_change_that_is_only_validated_changes_nothing(virtual: VirtualBroker) -> None:
    assert alter(virtual, (REQUESTS, SET, "DEBUG"), validate_only=True) == (0, None)
    assert shown(virtual, REQUESTS) == {REQUESTS: "INFO"}
