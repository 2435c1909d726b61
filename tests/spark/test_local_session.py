"""A local session's Python processes compile nothing: they import pyspark from where it is installed."""

import os
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_python_processes_import_the_installed_pyspark_and_not_its_archive(spark: Any) -> None:
    import pyspark

    def place(_: int) -> str:
        import pyspark as theirs

        return theirs.__file__

    assert spark.sparkContext.parallelize([0], 1).map(place).collect() == [pyspark.__file__]
    assert "SPARK_HOME" not in os.environ  # of that JVM only
