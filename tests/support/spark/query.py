"""A query of Spark without Spark: its checkpoint, the sink that publishes its batches, `oncelog spark` about both."""

import asyncio
import json
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from click.testing import CliRunner

from oncelog.cli import main
from oncelog.pipeline.sink.checkpoint import Checkpoint
from oncelog.pipeline.sink.plan import sink_id_of, wanted_marker
from oncelog.pipeline.sink.publish import OnStep, Outcome, SinkSettings, Step, publish
from oncelog.pipeline.sink.spool import TaskOutput
from oncelog.pipeline.source.offsets import StreamOffset, to_json
from tests.support.spark.driver_death import Death, DriverDied
from tests.support.spark.sink_batches import OUTPUTS, ROWS, make_topics, outputs_of


class Query:
    """A checkpoint as Spark writes it, and the sink of its query."""

    def __init__(self, bootstrap: str, location: Path) -> None:
        self.bootstrap = bootstrap
        self.location = location
        self.checkpoint = Checkpoint(str(location))
        for folder in ("offsets", "commits"):
            (location / folder).mkdir(parents=True)
        (location / "metadata").write_text(json.dumps({"id": str(location)}))

    def plan(self, batch_id: int, offsets: str = "") -> None:
        (self.location / "offsets" / str(batch_id)).write_text(f"v1\n{batch_id}{offsets}")

    def plan_ends(self, batch_id: int, ends: StreamOffset) -> None:
        """Plan a batch as a query with one source of `format("oncelog")` does."""
        lines = ["v1", json.dumps({"batchTimestampMs": int(time.time() * 1000)}), json.dumps(to_json(ends))]
        (self.location / "offsets" / str(batch_id)).write_text("\n".join(lines))

    def publishing(
        self, batch_id: int, outputs: Sequence[TaskOutput] = (), on_step: OnStep | None = None
    ) -> Coroutine[Any, Any, Outcome]:
        settings = SinkSettings(self.bootstrap, sink_id_of(self.checkpoint.query_id()))
        wanted = wanted_marker(self.checkpoint, batch_id)
        return publish(settings, wanted, outputs, *([] if on_step is None else [on_step]))

    def publish(self, batch_id: int, outputs: Sequence[TaskOutput] = ()) -> bool:
        return asyncio.run(self.publishing(batch_id, outputs)).published

    def finish(self, batch_id: int) -> None:
        (self.location / "commits" / str(batch_id)).write_text("v1\n{}")

    def run(self, *batches: int) -> None:
        for batch_id in batches:
            self.plan(batch_id)
            self.publish(batch_id)
            self.finish(batch_id)

    def call(self, command: str, *arguments: str, typed: str | None = None) -> tuple[int, str]:
        words = ["spark", command, str(self.location), "-b", self.bootstrap, *arguments]
        result = CliRunner().invoke(main, words, input=typed)
        return result.exit_code, result.output

    def report(self) -> dict[str, Any]:
        code, text = self.call("report", "--json")
        if code:
            raise AssertionError(text)
        found: dict[str, Any] = json.loads(text)
        return found

    def state(self) -> dict[str, Any]:
        _, text = self.call("state", "--json")
        found: dict[str, Any] = json.loads(text)
        return found


def check_report_of_a_death(query: Query, death: Death) -> str:
    """The report says which attempts failed, which replay was skipped, and what a sink without transactions would have
    left twice: what the dead driver wrote, or the whole batch. Returns the prefix of the outputs."""
    records, prefix = ROWS * len(OUTPUTS), f"report-{uuid4().hex[:8]}-"
    asyncio.run(make_topics(query.bootstrap, prefix))
    for batch_id in range(3):
        query.plan(batch_id)
        if batch_id == 1:
            with suppress(DriverDied):
                death.run(query.publishing(1, outputs_of(1, prefix), death.on_step))
        query.publish(batch_id, outputs_of(batch_id, prefix))
        query.finish(batch_id)
    before, hit, after = query.report()["batches"]
    assert [each["records"] for each in (before, hit, after)] == [records] * 3
    assert [before["failed"], before["skipped"], after["failed"], after["skipped"]] == [[]] * 4
    died = death.step, death.moment
    if died == (Step.END, "after"):
        assert (len(hit["skipped"]), hit["failed"], hit["doubled"]) == (1, [], records)
    elif died == (Step.FENCE, "before"):
        assert (hit["failed"], hit["skipped"], hit["doubled"]) == ([], [], 0)
    else:
        assert ([each["fate"] in ("aborted", "nothing") for each in hit["failed"]], hit["skipped"]) == ([True], [])
        assert hit["doubled"] == hit["written_in_vain"] <= records
    if died in ((Step.FLUSH, "after"), (Step.END, "before")):
        assert hit["doubled"] == records
    return prefix
