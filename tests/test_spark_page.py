"""docs/spark/spark.md has the options as the code has them."""

from oncelog.pipeline.options import OPTIONS, READ
from tools import update_spark_page


def test_the_tables_are_those_of_the_code() -> None:
    for each in update_spark_page.PAGES:
        page = each.read_text(encoding="utf-8")
        assert update_spark_page.updated(page) == page, "run PYTHONPATH=. python tools/update_spark_page.py"


def test_every_reading_option_is_in_it() -> None:
    page = update_spark_page.PAGES[1].read_text(encoding="utf-8")
    assert [option.name for option in OPTIONS if set(READ) & set(option.doors) and f"`{option.name}`" not in page] == []
