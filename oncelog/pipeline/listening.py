"""A StreamingQueryListener that keeps the metrics of all queries of a session in a file.

    session.streams.addListener(MetricsFile("/var/lib/node_exporter/textfile/oncelog.prom"))

Owns: when the file is written: after each progress, and now and then while there is no batch; whole or not at all, for
node_exporter's textfile collector or anything else that reads it. Does not own: the metrics (`prometheus`). Invariant:
a query never fails by it; Spark logs what a listener raises.
"""

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from oncelog.pipeline.progress import Progress, progress
from oncelog.pipeline.prometheus import Metrics


class MetricsFile(StreamingQueryListener):
    """Writes the metrics of all queries to a file. `metrics` may be shared with an endpoint that serves
    `metrics.text()`."""

    def __init__(self, path: str | Path, metrics: Metrics | None = None) -> None:
        self.metrics = metrics or Metrics()
        self._path = Path(path)
        self._newest: dict[str, Progress] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  # Spark's names
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        found = progress(event.progress)
        if found is not None:
            self._newest[str(event.progress["runId"])] = found
            self.metrics.add(found)
            self._write()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Write what the sources say, such as what waits behind an open transaction: no batch comes that would."""
        query = SparkSession.builder.getOrCreate().streams.get(str(event.id))
        found = None if query is None else progress(query)
        if found is not None:
            self.metrics.add_idle(found)
            self._write()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Remove the gauges of a query that has ended: they would look alive."""
        found = self._newest.pop(str(event.runId), None)
        if found is not None:
            self.metrics.remove(found, ("gauge",))
            self._write()

    def _write(self) -> None:
        written = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        written.write_text(self.metrics.text(), encoding="utf-8")
        written.replace(self._path)
