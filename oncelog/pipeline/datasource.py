"""`format("oncelog")` of Spark: one name, four doors.

Owns: the columns, and which class stands behind each door. Does not own: options (`options`), reading (`source`),
writing (`sink`). Spark finds it by itself, through the module `pyspark_oncelog`. The doors are imported when they are
used: Spark creates this object again in many short processes.
"""

from importlib.util import find_spec
from typing import Any

from pyspark import __version__ as version
from pyspark.sql.datasource import DataSource

from oncelog.pipeline.imported import set_imported_aside
from oncelog.pipeline.options import OptionError, Options, check_reading, parse

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
"""The columns of Spark's Kafka source: names, order and types."""
HEADERS = {"headers": "array<struct<key: string, value: binary>>"}


class OncelogDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def schema(self) -> str:
        """Return the columns. Spark calls this first when it reads: so an error is shown in `load()`."""
        return ", ".join(f"{name} {kind}" for name, kind in _columns(check_reading(self.options)).items())

    def reader(self, schema: Any) -> Any:
        from oncelog.pipeline.source.readers import batch_reader

        reader = batch_reader(_checked(parse(self.options, "read"), schema))
        set_imported_aside("plan")
        return reader

    def streamReader(self, schema: Any) -> Any:  # noqa: N802  # Spark's name
        options = _checked(parse(self.options, "readStream"), schema)
        if find_spec("pyspark.sql.streaming.datasource") is None:
            raise OptionError(
                f"readStream needs pyspark 4.2 or later, and this is {version}: before, Spark does not pass a source "
                "in Python where a batch begins, and no loss would be seen. spark.read and every way of writing work"
            )
        from oncelog.pipeline.source.stream_reader import OncelogStreamReader

        return OncelogStreamReader(options)

    # Spark passes both arguments by name when it commits.
    def writer(self, schema: Any, overwrite: bool) -> Any:
        from oncelog.pipeline.sink.writers import batch_writer

        writer = batch_writer(parse(self.options, "write"), schema, overwrite)
        set_imported_aside("plan")
        return writer

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        from oncelog.pipeline.sink.writers import stream_writer

        writer = stream_writer(parse(self.options, "writeStream"), schema)
        set_imported_aside("plan")
        return writer


def _columns(options: Options) -> dict[str, str]:
    return {**COLUMNS, **HEADERS} if options["includeHeaders"] else COLUMNS


def _checked(options: Options, schema: Any) -> Options:
    """Raises OptionError for a schema of the user's own."""
    names = list(_columns(options))
    if schema.names != names:
        raise OptionError(f"the columns are {', '.join(names)}: leave out schema(), and select from them")
    return options
