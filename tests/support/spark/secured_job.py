"""A program for Spark that reads and writes over SASL_SSL, as a user writes it; its test runs it in its own process.

    python -m tests.support.spark.secured_job DIRECTORY < OPTIONS

DIRECTORY is for checkpoint and log; OPTIONS are those of both directions, as JSON. It prints plans, progress and
errors, in which a secret could be seen.
"""

import json
import sys
from pathlib import Path
from typing import Any

from oncelog.pipeline.java import LOCAL_SETTINGS, QUICK_START, local_session

ANOTHER_USER = {"kafka.sasl.jaas.config": "org.x.ScramLoginModule required username='eve' password='eves-secret';"}


def main(directory: Path, options: dict[str, str]) -> None:
    (directory / "events").mkdir()
    settings = {
        **LOCAL_SETTINGS,
        **QUICK_START,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (directory / "events").as_uri(),
    }
    spark = local_session(directory / "session", "secured", settings)
    spark.sparkContext.setLogLevel("INFO")
    stream(spark, directory / "checkpoint", options)
    (directory / "checkpoint" / "commits" / "0").unlink()
    (directory / "checkpoint" / "commits" / ".0.crc").unlink()
    stream(spark, directory / "checkpoint", options)
    rows = spark.read.format("oncelog").options(subscribe="in", **options).load()
    rows.explain(True)
    rows.select("value").write.format("oncelog").mode("append").options(topic="copied", **options).save()
    for wrong in (
        ANOTHER_USER,
        {"kafka.sasl.jaas.config": "eves-secret"},
        {"kafka.sasl.pasword": "eves-secret"},
    ):
        try:
            spark.read.format("oncelog").options(subscribe="in", **{**options, **wrong}).load().collect()
        except Exception as error:  # Spark's own
            print("refused:", error)
    spark.stop()


def stream(spark: Any, checkpoint: Path, options: dict[str, str]) -> None:
    read = spark.readStream.format("oncelog").options(subscribe="in", startingOffsets="earliest", **options).load()
    read.explain(True)
    # Without the option topic each row names its own, which a task looks up.
    rows = read.selectExpr("key", "value", "'out' as topic")
    writer = rows.writeStream.format("oncelog").options(checkpointLocation=str(checkpoint), **options)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    print("progress:", json.dumps(query.lastProgress, default=str))
    query.explain(True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.load(sys.stdin))
