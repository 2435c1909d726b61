"""docs/spark/spark-versions.md: the versions that are named are those that may be installed, and its program runs."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.spark.scenes import create, expected, make_input, stream, values
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark" / "spark-versions.md").read_text(encoding="utf-8")


def test_the_versions_of_the_page_the_extras_and_the_target_are_the_same() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    ranges = {each.partition("]")[2] or each for name in extras for each in extras[name] if each.startswith("pyspark")}
    oldest = {re.sub(r".*>=([0-9.]+),.*", r"\1", each) for each in ranges}
    (tested,) = re.findall(r"^SPARKS \?= (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    (named,) = re.findall(r"runs with pyspark ([0-9., and]+)\.", PAGE)
    versions = re.findall(r"[0-9]+\.[0-9]+", named)
    assert oldest == {versions[0]}
    assert tested.split() == versions[:-1]


def test_a_query_that_dies_of_a_process_that_was_slow_to_start_is_started_again_and_no_other(
    spark: Any, daemon: Daemon, tmp_path: Path
) -> None:
    """The page's program, with a query that dies of it twice: once before its first batch, once in its last one."""
    create(daemon, "restarted")
    source = make_input(tmp_path / "in")
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "checkpointLocation": str(tmp_path / "checkpoint")}
    dies_in = [0, 2]

    def publish(batch: Any, batch_id: int) -> None:
        from oncelog.pipeline.sink import exactly_once

        with exactly_once(batch, batch_id, options) as once:
            once.to_topic(batch, "restarted")
        if dies_in and batch_id == dies_in[0]:
            dies_in.pop(0)
            raise RuntimeError("Python worker failed to connect back.")

    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    writer = stream(spark, source).writeStream.foreachBatch(publish).trigger(availableNow=True)
    known: dict[str, Any] = {"writer": writer, "CHECKPOINT": options["checkpointLocation"]}
    exec(code, known)
    assert not dies_in
    assert values(daemon, "restarted") == expected()

    starts: list[int] = []

    def broken() -> Any:
        starts.append(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        known["run"](broken)
    assert len(starts) == 1
