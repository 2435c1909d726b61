"""The levels of this broker's loggers as settings of the resource BROKER_LOGGER (KIP-412).

Kafka's levels map to the nearest of ours: TRACE is DEBUG, FATAL is ERROR. To delete a logger's level gives it the
root's, which itself cannot be deleted. A restart resets the levels, as in Kafka.
"""

from collections.abc import Sequence

from oncelog.broker.config.changes import ConfigChange, Operation
from oncelog.broker.config.node_id import check_node_id
from oncelog.broker.observability.logging import ROOT, LogLevel, level_of
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode, KafkaError

_LEVELS = {
    "DEBUG": "debug",
    "ERROR": "error",
    "FATAL": "error",
    "INFO": "info",
    "TRACE": "debug",
    "WARN": "warning",
}
_KAFKA_NAMES = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}


def levels(context: RequestContext) -> dict[str, str]:
    """Return the loggers of this broker and their levels, in Kafka's names; none if the log is not the broker's own."""
    root = level_of(context.broker.logger)
    loggers: dict[str, LogLevel] = {} if root is None else {ROOT: root, **root.children}
    return {name: _KAFKA_NAMES[level.name] for name, level in loggers.items()}


def alter_levels(context: RequestContext, name: str, changes: Sequence[ConfigChange], validate_only: bool) -> None:
    """Raises KafkaError, in which case nothing has changed."""
    _check_node(context, name)
    known = levels(context)
    for change in changes:
        _check(known, change)
    root = level_of(context.broker.logger)
    if root is not None and not validate_only:
        for change in changes:
            _apply(root, change)


def _apply(root: LogLevel, change: ConfigChange) -> None:
    if change.operation is Operation.DELETE:
        root.unset(change.name)
    else:
        logger = root if change.name == ROOT else root.child(change.name)
        logger.set(_LEVELS[change.value or ""])


def _check(known: dict[str, str], change: ConfigChange) -> None:
    operation = change.operation
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        message = f"{operation.name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if change.name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if operation is Operation.DELETE:
        if change.name != ROOT:
            return
        message = f"Removing the log level of the {ROOT} logger is not allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if change.value not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. Valid "
            f"log levels are {', '.join(_LEVELS)}",
        )


def _check_node(context: RequestContext, name: str) -> None:
    check_node_id(
        name,
        context.broker.live_config.node_id,
        not_a_number="Node id must be an integer, but it is: {name}",
        another="Unexpected node id. Expected {node_id}, but received {name}",
    )
