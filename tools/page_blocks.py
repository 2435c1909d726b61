"""The tables and diagrams of pages that come from the code: one function for each block.

Owns: how a table of the code becomes one of a page. Does not own: which page has it (`tools.pages`).
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import click

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.cluster.features import FEATURES
from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.kafka_names import UNNEEDED_GROUPS
from oncelog.broker.observability.catalogue import ALL, COUNTER, PREFIX, Family
from oncelog.cli import main as oncelog
from oncelog.client import ConsumerSettings, ProducerSettings
from oncelog.client.values import errors
from oncelog.client.values.option_help import declarations
from oncelog.client.wire.security import SecuritySettings
from oncelog.pipeline import options as spark
from oncelog.pipeline import prometheus
from oncelog.pipeline.sink.publish import DEFAULTS
from oncelog.protocol.api_keys import ApiKey
from tests.support.pages.known_bugs import KNOWN_BUGS
from tools.kafka_facts import KAFKA, NOT_SERVED, OTHER_DEFAULTS


def table(head: str, rows: Iterable[Sequence[object]]) -> str:
    """Of Markdown. `head` has the titles, with bars between them; one that ends in a colon is of numbers."""
    titles = head.split("|")
    rules = ["--:" if title.endswith(":") else "---" for title in titles]
    lines = [f"| {' | '.join(title.strip(': ') for title in titles)} |", f"|{'|'.join(rules)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)]) + "\n"


def diagram(mermaid: str) -> str:
    return f"```mermaid\n{mermaid}\n```\n"


_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(file: str, *names: str) -> str:
    """These functions and classes of an example, as they stand there."""
    source = (_EXAMPLES / file).read_text(encoding="utf-8")
    found = {each.name: each for each in ast.parse(source).body if isinstance(each, ast.stmt) and hasattr(each, "name")}
    return "```python\n" + "\n\n\n".join(_with_decorators(source, found[name]) for name in names) + "\n```\n"


def _with_decorators(source: str, node: Any) -> str:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return "\n".join(source.splitlines()[first - 1 : node.end_lineno])


# --- the client -------------------------------------------------------------------------------------------------------


def client_options(kind: type[SecuritySettings]) -> str:
    """The options that the class adds to those of every client, with their defaults and meanings."""
    declared = declarations(kind)
    known = (each for each in fields(kind) if each.name in declared)
    return table("option|default|", ((f"`{each.name}`", _default(each), declared[each.name].meaning) for each in known))


def _default(field: Field[Any]) -> str:
    return "" if field.default is MISSING else f"`{field.default!r}`"


_KINDS_OF_ERRORS = (errors.RetriableError, errors.AbortableError, errors.FatalError, errors.ConfigError)


def client_errors() -> str:
    """Each class below one of the four kinds, with what it means and what to do; of the client itself, since other
    packages derive theirs."""
    rows = []
    for kind in _KINDS_OF_ERRORS:
        for each in kind.__subclasses__():
            if each.__module__ != errors.__name__:
                continue
            meaning = " ".join(str(each.__doc__).split("\n\n")[0].split())
            to_do = each.default_hint or "the message says"
            rows.append((f"`{each.__name__}`", f"`{kind.__name__}`", meaning, to_do))
    return table("error|is a|means|to do", rows)


def commands() -> str:
    """One line for each noun of the command: its verbs, and what it is for."""
    context = click.Context(oncelog)
    rows = []
    for name in oncelog.list_commands(context):
        command = oncelog.get_command(context, name)
        if command is None:
            continue
        verbs = ""
        if isinstance(command, click.Group):
            verbs = " " + "\\|".join(command.list_commands(click.Context(command)))
        rows.append((f"`oncelog {name}{verbs}`", command.get_short_help_str(200)))
    return table("|", rows)


# --- compatibility ----------------------------------------------------------------------------------------------------


def apis() -> str:
    rows = []
    for key, (minimum, maximum) in KAFKA.items():
        api = API_TABLE.get(key)
        here = "–" if api is None else _range(api.minimum, api.maximum)
        why = NOT_SERVED.get(ApiKey(key), "") if api is None else api.left_out
        rows.append((key, _api_name(key), here, _range(minimum, maximum), why))
    return table("key:|API|here|Kafka 4.3|left out, and why", rows)


def features() -> str:
    rows = ((f"`{each.name}`", _range(each.minimum, each.maximum), each.maximum) for each in FEATURES.values())
    return table("feature|levels here|a new data directory begins with", rows)


def other_defaults() -> str:
    rows = []
    for name, (kafkas, why) in OTHER_DEFAULTS.items():
        default = BROKER_KEYS[name].default
        theirs = kafkas if kafkas.startswith("none") else f"`{kafkas}`"
        rows.append((f"`{name}`", "none" if default is None else f"`{default}`", theirs, why))
    return table("setting|here|Kafka 4.3|why", rows)


def settings_without_effect() -> str:
    rows = []
    for group in UNNEEDED_GROUPS:
        names = ", ".join(f"`{name}`" for name in group.names)
        shown = (
            "what was given, if it was"
            if group.is_internal
            else "what is true here"
            if group.is_fixed
            else "what was given"
        )
        rows.append((group.title, names, shown, group.why))
    return table("group|settings|DescribeConfigs|why", rows)


def _range(minimum: int, maximum: int) -> str:
    return str(minimum) if minimum == maximum else f"{minimum}–{maximum}"


def _api_name(key: int) -> str:
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


# --- operation --------------------------------------------------------------------------------------------------------


def metrics() -> str:
    rows = ((f"`{_shown(each)}`", each.kind, each.text, f"`{each.jmx}`" if each.jmx else "") for each in ALL)
    return table("metric|kind|what it is|Kafka's", rows)


def _shown(family: Family) -> str:
    """As Prometheus has it, with its labels."""
    name = f"{PREFIX}_{family.name}{'_total' if family.kind == COUNTER else ''}"
    return f"{name}{{{', '.join(family.labels)}}}" if family.labels else name


def rights() -> str:
    rows = []
    for api in API_TABLE.values():
        by_resource: dict[str, list[str]] = {}
        for operation, resource in api.rights.all:
            by_resource.setdefault(resource.name, []).append(operation.name)
        operations = "; ".join(f"{resource}: {', '.join(names)}" for resource, names in by_resource.items())
        rows.append((int(api.key), _api_name(api.key), operations or f"none: {api.rights.free}"))
    return table("key:|API|operations, by resource", rows)


def known_bugs() -> str:
    rows = []
    for bug in KNOWN_BUGS:
        files = dict.fromkeys(f"`tests/{each.partition('::')[0]}`" for each in bug.tests)
        rows.append((bug.what, ", ".join(bug.names), ", ".join(files)))
    return table("bug|whose|our tests", rows)


# --- Spark ------------------------------------------------------------------------------------------------------------


def spark_options(*doors: spark.Door) -> str:
    """The options of some doors, and what may stand after `kafka.`, with our client's defaults."""
    reads = set(doors) <= set(spark.READ)
    names, kind = (spark.READ_SETTINGS, ConsumerSettings) if reads else (spark.WRITE_SETTINGS, ProducerSettings)
    defaults = {field.name: field.default for field in fields(kind)}
    if not reads:
        defaults |= DEFAULTS
    settings = (
        (f"`kafka.{name}`", f"`{defaults.get(name.replace('.', '_'))}`")
        for name in (*names, *spark.SECURITY_SETTINGS, *spark.TOKEN_SETTINGS)
    )
    parts = [
        f"{spark.table(doors)}\n",
        table("setting|default", settings),
        table("accepted, without effect|why", _by_text(spark.WITHOUT_EFFECT)),
        table("refused|instead", _by_text(spark.REFUSED)),
    ]
    return "\n".join(parts)


def _by_text(texts: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """One row for all settings with the same text."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(f"`kafka.{name}`")
    return ((", ".join(of_text), text) for text, of_text in names.items())


def spark_metrics() -> str:
    rows = []
    for name, metric in prometheus.METRICS.items():
        labels = "".join(f", `{label}`" for label in metric.labels)
        rows.append((f"`{prometheus.PREFIX}{name}`{labels}", metric.kind, metric.help))
    return table("metric|type|", rows)
