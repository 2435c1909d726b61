"""Writes the tables of options and metrics in docs/spark/spark.md from the code; a test compares.

    python tools/update_spark_page.py

A table stands between `<!-- options of read and readStream -->` and `<!-- end of options -->`; any doors can be
named. That of metrics has a place of its own.
"""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from oncelog.client import ConsumerSettings, ProducerSettings
from oncelog.pipeline.options import (
    READ,
    READ_SETTINGS,
    REFUSED,
    SECURITY_SETTINGS,
    WITHOUT_EFFECT,
    WRITE_SETTINGS,
    Door,
    table,
)
from oncelog.pipeline.prometheus import METRICS, PREFIX
from oncelog.pipeline.sink.publish import DEFAULTS

PAGES = [Path(__file__).parent.parent / "docs" / "spark" / name for name in ("spark.md", "spark-options.md")]
_PLACE = re.compile(r"(<!-- options of ([\w ]+) -->\n).*?(<!-- end of options -->)", re.DOTALL)
_METRICS_PLACE = re.compile(r"(<!-- metrics -->\n).*?(<!-- end of metrics -->)", re.DOTALL)


def settings(doors: tuple[Door, ...]) -> str:
    """What may stand after `kafka.`, with our client's defaults."""
    names, kind = (READ_SETTINGS, ConsumerSettings) if set(doors) <= set(READ) else (WRITE_SETTINGS, ProducerSettings)
    defaults = {field.name: field.default for field in fields(kind)}
    if kind is ProducerSettings:
        defaults |= DEFAULTS
    lines = ["| setting | default |", "|---|---|"]
    lines += [f"| `kafka.{name}` | `{defaults[name.replace('.', '_')]}` |" for name in names]
    lines += [f"| `kafka.{name}` | `{defaults[name.replace('.', '_')]}` |" for name in SECURITY_SETTINGS]
    lines += ["", "| accepted, without effect | why |", "|---|---|"]
    lines += [f"| `kafka.{name}` | {why} |" for name, why in WITHOUT_EFFECT.items()]
    lines += ["", "| refused | instead |", "|---|---|"]
    lines += [f"| `kafka.{name}` | {what} |" for name, what in REFUSED.items()]
    return "\n".join(lines)


def updated(page: str) -> str:
    """The page with its tables rewritten."""

    def written(place: re.Match[str]) -> str:
        doors = tuple(door for door in get_args(Door) if door in place[2].split())
        return f"{place[1]}\n{table(doors)}\n\n{settings(doors)}\n\n{place[3]}"

    lines = ["| metric | type | |", "|---|---|---|"]
    for name, metric in METRICS.items():
        labels = "".join(f", `{label}`" for label in metric.labels)
        lines.append(f"| `{PREFIX}{name}`{labels} | {metric.kind} | {metric.help} |")
    metrics = "\n".join(lines)
    page = _METRICS_PLACE.sub(lambda place: f"{place[1]}\n{metrics}\n\n{place[2]}", page)
    return _PLACE.sub(written, page)


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(updated(each.read_text(encoding="utf-8")), encoding="utf-8")
