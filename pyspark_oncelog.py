"""Where Spark finds `format("oncelog")` by itself: it imports the modules whose names begin with `pyspark_`.

Owns: nothing but the name `DefaultSource`.
"""

from oncelog.pipeline.datasource import OncelogDataSource as DefaultSource

__all__ = ["DefaultSource"]
