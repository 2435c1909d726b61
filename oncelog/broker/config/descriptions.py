"""DescribeConfigs entries for each kind of resource: every setting with its value, source and synonyms (KIP-226).

Owns: the entries. Does not own: which resources exist (`broker.handlers.describe_configs`), effective values
(`broker.config.topic_config`, `broker.config.settings`). Invariant: the order is that of the tables.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from oncelog.broker.config.broker_keys import BROKER_KEYS, key_of_listener
from oncelog.broker.config.client_metrics import CLIENT_METRICS, shown_value
from oncelog.broker.config.config_key import ConfigKey, ConfigType
from oncelog.broker.config.dynamic_keys import has_effect_while_running, may_change_while_running
from oncelog.broker.config.group_config import GROUP_CONFIGS
from oncelog.broker.config.kafka_names import FIXED, HIDDEN, UNNEEDED_KEYS
from oncelog.broker.config.settings import BrokerConfig, Origin
from oncelog.broker.config.topic_config import ConfigSource, broker_synonyms, resolve_topic_config, source_of
from oncelog.broker.config.topic_keys import INTERNAL_TOPIC_CONFIGS, TOPIC_CONFIGS
from oncelog.protocol.generated.describe_configs_response import DescribeConfigsResourceResult, DescribeConfigsSynonym

Entries = list[DescribeConfigsResourceResult]
_Synonym = tuple[str, str, ConfigSource]
_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.+)")
_UNKNOWN_TYPE = 0
INTERNAL = frozenset(
    (
        "group.consumer.regex.refresh.interval.ms",
        "group.share.initialize.retry.interval.ms",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
        "unstable.api.versions.enable",
    )
)
"""Kafka's internal settings: shown once they are given, as in Kafka."""


def describe_topic(config: Mapping[str, str], broker_config: BrokerConfig) -> Entries:
    entries = []
    for name in (*TOPIC_CONFIGS, *(each for each in INTERNAL_TOPIC_CONFIGS if each in config)):
        resolved = resolve_topic_config(name, config, broker_config)
        entries.append(_entry(resolved.key, resolved.value, resolved.synonyms))
    return entries


def describe_broker(
    broker_config: BrokerConfig, this_broker: Mapping[str, str], all_brokers: Mapping[str, str]
) -> Entries:
    """Describe one broker. The mappings are what was set while it runs; values under names that it does not know may be
    secret, so they are not shown, as in Kafka."""
    entries = []
    for name, key in BROKER_KEYS.items():
        if name in INTERNAL and broker_config.origin(name) is Origin.DEFAULT:
            continue
        value, synonyms = _resolve(name, broker_config)
        entries.append(_entry(key, value, synonyms, read_only=not may_change_while_running(name)))
    given = _without_key(this_broker, all_brokers)
    at_start = broker_config.static_of_listeners() | broker_config.static_without_effect()
    for name, (value, origin) in at_start.items():
        if name not in FIXED:
            given.setdefault(name, []).append((name, value, source_of(origin)))
    for name, key in UNNEEDED_KEYS.items():
        if name not in HIDDEN or name in given:
            entries.append(_without_effect(key, given.pop(name, [])))
    for name, synonyms in given.items():
        base = _without_listener(name)
        if base in BROKER_KEYS:
            synonyms = synonyms + broker_synonyms([base], broker_config)
        elif base != name:
            synonyms = synonyms + given.get(base, [])
        entries.append(_of_listener(name, synonyms))
    return entries


def _resolve(name: str, broker_config: BrokerConfig) -> tuple[str | None, list[_Synonym]]:
    """Return the value of one key, and where it comes from."""
    synonyms = broker_synonyms(_same_meaning(name), broker_config)
    if name != "broker.id" or synonyms[0][2] is not ConfigSource.DEFAULT_CONFIG:
        return broker_config.get(name), synonyms
    # As in Kafka, which sets the older name to what the newer one says.
    of_node = broker_synonyms(["node.id"], broker_config)
    renamed = [(name, text, source) for _, text, source in of_node[:-1] or of_node]
    return broker_config.get("node.id"), renamed + synonyms[: len(of_node) - 1]


def _without_key(this_broker: Mapping[str, str], all_brokers: Mapping[str, str]) -> dict[str, list[_Synonym]]:
    """Return what was set while the broker runs under names that it does not know."""
    given: dict[str, list[_Synonym]] = {}
    for settings, source in (
        (this_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (all_brokers, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ):
        for name, value in settings.items():
            if name not in BROKER_KEYS:
                given.setdefault(name, []).append((name, value, source))
    return given


def describe_all_brokers(config: Mapping[str, str]) -> Entries:
    """Describe the settings for all brokers."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = []
    for name, value in config.items():
        key = BROKER_KEYS.get(name) if has_effect_while_running(name) else UNNEEDED_KEYS.get(name)
        synonyms = [(name, value, source)]
        entries.append(_entry(key, value, synonyms) if key else _of_listener(name, synonyms))
    return entries


def describe_group(config: Mapping[str, str], broker_config: BrokerConfig) -> Entries:
    entries = []
    for name, item in GROUP_CONFIGS.items():
        synonyms: list[tuple[str, str, ConfigSource]] = []
        if name in config:
            synonyms.append((name, config[name], ConfigSource.GROUP_CONFIG))
        if item.synonym is not None:
            synonyms += broker_synonyms([item.synonym], broker_config)
        else:
            synonyms.append((name, item.key.default or "", ConfigSource.DEFAULT_CONFIG))
        entries.append(_entry(item.key, synonyms[0][1], synonyms))
    return entries


def describe_client_metrics(config: Mapping[str, str]) -> Entries:
    """Describe a subscription; one that does not exist has the defaults, as in Kafka."""
    entries = []
    for name, key in CLIENT_METRICS.items():
        value = shown_value(name, config[name]) if name in config else key.default
        synonyms = [(name, value or "", ConfigSource.CLIENT_METRICS_CONFIG)] if name in config else []
        entries.append(_entry(key, value, synonyms))
    return entries


def describe_loggers(levels: Mapping[str, str]) -> Entries:
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=level,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            config_type=_UNKNOWN_TYPE,
            documentation=None,
        )
        for name, level in levels.items()
    ]


def _without_effect(key: ConfigKey, given: Sequence[_Synonym]) -> DescribeConfigsResourceResult:
    """Describe a setting that one node does not need: what it was given, while it runs or at its start, or what is true
    of it."""
    default = [] if key.default is None else [(key.name, key.default, ConfigSource.DEFAULT_CONFIG)]
    synonyms = [*given, *default]
    value = synonyms[0][1] if synonyms else None
    return _entry(key, value, synonyms, read_only=not may_change_while_running(key.name))


@cache
def _same_meaning(name: str) -> Sequence[str]:
    """Return the names with the same meaning in several units, in order of precedence."""
    for item in TOPIC_CONFIGS.values():
        names = [synonym.name for synonym in item.synonyms]
        if len(names) > 1 and name in names:
            return names[names.index(name) :]  # as in Kafka, whose list begins with the requested name
    return [name]


def _entry(
    key: ConfigKey, value: str | None, synonyms: Sequence[tuple[str, str, ConfigSource]], *, read_only: bool = False
) -> DescribeConfigsResourceResult:
    is_sensitive = key.type is ConfigType.PASSWORD
    return DescribeConfigsResourceResult(
        name=key.name,
        value=None if is_sensitive else value,
        read_only=read_only,
        config_source=synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG,
        is_sensitive=is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=None if is_sensitive else text, source=source)
            for name, text, source in synonyms
        ],
        config_type=key.type.value,
        documentation=key.doc,
    )


def _of_listener(name: str, synonyms: Sequence[_Synonym]) -> DescribeConfigsResourceResult:
    """Describe a setting of one listener. Kafka calls all of these read-only, though some can change; an unknown one
    has no type and is secret."""
    key = key_of_listener(name)
    if key is not None:
        return _entry(replace(key, name=name), synonyms[0][1], synonyms, read_only=True)
    return DescribeConfigsResourceResult(
        name=name,
        value=None,
        read_only=True,
        config_source=synonyms[0][2],
        is_sensitive=True,
        synonyms=[DescribeConfigsSynonym(name=name, value=None, source=source) for name, _, source in synonyms],
        config_type=_UNKNOWN_TYPE,
        documentation=None,
    )


def _without_listener(name: str) -> str:
    """Return the name without the prefix of a listener or of a mechanism there; a name that has none is returned
    unchanged."""
    key, of_listener = key_of_listener(name), _LISTENER_PREFIX.match(name)
    if key is not None:
        return key.name
    return name if of_listener is None else of_listener[1]


def select_entries(entries: Entries, names: Sequence[str] | None, synonyms: bool, documentation: bool) -> Entries:
    """Return the requested entries (all if none is named), with only the requested details."""
    named = frozenset(names or ())
    wanted = entries if not names else [entry for entry in entries if entry.name in named]
    if synonyms and documentation:
        return wanted
    return [
        DescribeConfigsResourceResult(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.config_source,
            is_sensitive=entry.is_sensitive,
            synonyms=entry.synonyms if synonyms else (),
            config_type=entry.config_type,
            documentation=entry.documentation if documentation else None,
        )
        for entry in wanted
    ]
