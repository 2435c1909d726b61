"""Reading small files on whatever file system Spark's checkpoint is, in whatever process.

Owns: the choice of a reader. Hadoop's own file systems are Java: where the process has a session, its JVM reads with
the session's settings. A process without one (Spark commits `format("oncelog")` in such a process, and `oncelog spark`
is one) uses pyarrow, and for what pyarrow cannot read Hadoop's command in Spark's jars, which takes a second.
Invariant: an error is an OSError with a sentence; nothing but a missing directory is an empty answer.
"""

import errno
import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

_PATIENCE_S = 120
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_FOR_PYARROW = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names of file systems that have another name in pyarrow."""


class Files(Protocol):
    """The files below one directory. All methods raise OSError."""

    def read(self, name: str) -> bytes: ...

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory; none if there is no such directory."""

    def modified_ms(self, name: str) -> int | None:
        """Return when a file was written, in milliseconds since the epoch; None if the file system does not say."""


def files_at(location: str, spark: Any = None) -> Files:
    """Return the files below a path or URI; `spark` is the session of this process, if it has one. Raises OSError.

    A path without a scheme is one of Hadoop's default file system (fs.defaultFS) if there is a session, else local.
    """
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        is_local = spark is None or _default_of(spark).startswith("file:")
        return LocalFiles(Path(location)) if is_local else SessionFiles(spark, location)
    if scheme == "file":
        return LocalFiles(Path("/" + rest.lstrip("/")))
    if spark is not None:
        return SessionFiles(spark, location)
    try:
        from pyarrow.fs import FileSystem

        return ArrowFiles(*FileSystem.from_uri(f"{_FOR_PYARROW.get(scheme, scheme)}:{rest}"))
    except (ImportError, ValueError, OSError) as error:
        return HadoopFiles(location, f"pyarrow cannot read it ({str(error).splitlines()[0]})")


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """The files of this machine, also mounted ones."""

    root: Path

    def read(self, name: str) -> bytes:
        path = self.root / name
        if path.exists() and not (path.is_file() or path.is_dir()):  # a FIFO would be waited for
            raise OSError(errno.ENXIO, "no regular file", str(path))
        return path.read_bytes()

    def names(self, directory: str) -> list[str]:
        path = self.root / directory
        return [each.name for each in path.iterdir()] if path.exists() else []

    def modified_ms(self, name: str) -> int | None:
        return (self.root / name).stat().st_mtime_ns // 1_000_000


@dataclass(frozen=True, slots=True)
class ArrowFiles:
    """pyarrow's file system, and the path on it."""

    files: Any
    root: str

    def read(self, name: str) -> bytes:
        with self.files.open_input_stream(f"{self.root}/{name}") as stream:
            content: bytes = stream.read()
        return content

    def names(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector

        chosen = FileSelector(f"{self.root}/{directory}", allow_not_found=True)
        return [each.base_name for each in self.files.get_file_info(chosen)]

    def modified_ms(self, name: str) -> int | None:
        found = self.files.get_file_info(f"{self.root}/{name}").mtime_ns
        return None if found is None else int(found) // 1_000_000


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Hadoop's file systems, through the JVM of a session."""

    spark: Any
    location: str

    def read(self, name: str) -> bytes:
        from py4j.protocol import Py4JJavaError

        path = self._path(name)
        try:
            stream = self._file_system(path).open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise OSError(str(error.java_exception)) from None

    def names(self, directory: str) -> list[str]:
        from py4j.protocol import Py4JJavaError

        path = self._path(directory)
        try:
            files = self._file_system(path)
            return [each.getPath().getName() for each in files.listStatus(path)] if files.exists(path) else []
        except Py4JJavaError as error:
            raise OSError(str(error.java_exception)) from None

    def modified_ms(self, name: str) -> int | None:
        from py4j.protocol import Py4JJavaError

        path = self._path(name)
        try:
            return int(self._file_system(path).getFileStatus(path).getModificationTime())
        except Py4JJavaError as error:
            raise OSError(str(error.java_exception)) from None

    def _path(self, name: str) -> Any:
        return self.spark._jvm.org.apache.hadoop.fs.Path(f"{self.location.rstrip('/')}/{name}")

    def _file_system(self, path: Any) -> Any:
        return path.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf())


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """Hadoop's file systems through Hadoop's command, with the jars of Spark's package and the settings in
    HADOOP_CONF_DIR."""

    location: str
    reason: str
    """The reason why this way was chosen."""

    def read(self, name: str) -> bytes:
        return self._call("-cat", f"{self.location.rstrip('/')}/{name}")

    def names(self, directory: str) -> list[str]:
        # To list what is not there is an error like any other; the checkpoint itself is there.
        if directory not in self._listed(self.location):
            return []
        return self._listed(f"{self.location.rstrip('/')}/{directory}")

    def modified_ms(self, name: str) -> int | None:
        return int(self._call("-stat", "%Y", f"{self.location.rstrip('/')}/{name}"))

    def _listed(self, path: str) -> list[str]:
        return [line.rpartition("/")[2] for line in self._call("-ls", "-C", path).decode().splitlines()]

    def _call(self, *words: str) -> bytes:
        home = os.environ.get("JAVA_HOME")
        java = f"{home}/bin/java" if home else shutil.which("java")
        jars, settings = _spark_jars(), os.environ.get("HADOOP_CONF_DIR")
        if java is None or jars is None or settings is None:
            raise OSError(
                f"{self.reason}; Hadoop's command needs java, pyspark and HADOOP_CONF_DIR (with core-site.xml)"
            )
        command = [java, *_JAVA, "-cp", f"{settings}:{jars}/*", "org.apache.hadoop.fs.FsShell", *words]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
        except subprocess.TimeoutExpired:
            raise OSError(f"Hadoop's command took longer than {_PATIENCE_S} s") from None
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise OSError(f"Hadoop's command says: {lines[-1]}")
        return done.stdout


def _default_of(spark: Any) -> str:
    return str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS"))


def _spark_jars() -> Path | None:
    home = os.environ.get("SPARK_HOME")
    if home:
        return Path(home) / "jars"
    found = find_spec("pyspark")
    return None if found is None or found.origin is None else Path(found.origin).parent / "jars"
