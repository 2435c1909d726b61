"""The settings of a subscription to clients' metrics: names, bounds, patterns (KIP-714).

Owns: the table, and Kafka's checks. Does not own: metrics; this broker collects none, like a Kafka without a plug-in
that receives them. Patterns are RE2's, as for rights and groups: what only Java has is refused, look-around, possessive
quantifiers and the classes of POSIX among them.
"""

from collections.abc import Mapping

from oncelog.broker.config.config_key import ConfigKey, ConfigType
from oncelog.protocol.errors import ErrorCode, KafkaError

_LONGEST_MS = 3_600_000
CLIENT_METRICS = {
    key.name: key
    for key in (
        ConfigKey("metrics", ConfigType.LIST, "", "What they report: prefixes of names, or *."),
        ConfigKey("interval.ms", ConfigType.INT, "300000", "How often clients report, at least each hour."),
        ConfigKey("match", ConfigType.LIST, "", "Which clients report: NAME=PATTERN,…; all of them have to match."),
    )
}
_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The properties of a client that a pattern can match."""


def validate_client_metrics(config: Mapping[str, str]) -> None:
    """Raises KafkaError with Kafka's code and message."""
    for name in config:
        if name not in CLIENT_METRICS:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
    given = {name: shown_value(name, config[name]) for name in CLIENT_METRICS if name in config}
    interval = given.get("interval.ms")
    if interval is not None and not 100 <= int(interval) <= _LONGEST_MS:
        message = f"Invalid value {interval} for interval.ms, interval must be between 100 and {_LONGEST_MS} (1 hour)"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    for pattern in filter(None, given.get("match", "").split(",")):
        _check_pattern(pattern)


def shown_value(name: str, text: str) -> str:
    """Return a value as it is shown, without blanks around it and around the items of a list. Raises KafkaError."""
    key = CLIENT_METRICS[name]
    if key.type is ConfigType.LIST:
        items = [item.strip() for item in text.split(",")] if text.strip() else []
        if not all(items):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{name}' values must not be empty.")
        return ",".join(items)
    try:
        return key.check(text)
    except ValueError as error:
        message = f"Invalid value {text} for configuration {name}: {error}"
        raise KafkaError(ErrorCode.INVALID_CONFIG, message) from None


def _check_pattern(text: str) -> None:
    import re2

    from oncelog.broker.config.pattern import compiled  # loaded with the first pattern, as RE2 is

    parts = [part.strip() for part in text.split("=")]
    try:
        if len(parts) == 2 and parts[0] in _MATCHED and parts[1]:
            compiled(parts[1])
            return
    except (re2.error, UnicodeEncodeError):
        pass
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}")
