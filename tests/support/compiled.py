"""What a run against the compiled broker takes, and what it leaves to a run against the sources.

Each slow test runs once: with `--compiled` if it meets compiled code, otherwise with `--not-compiled`. Fast tests run
against both.
"""

from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_PLACES = [
    *("console", "outbox", "unit/bench", "unit/console", "unit/oncelog", "unit/pipeline", "unit/schemas"),
    *("test_add_pages.py", "test_client_notes_page.py", "test_guarantees_page.py", "test_install_lines.py"),
    *("test_links.py", "test_packaging.py", "test_pages.py", "test_performance_page.py", "test_release_check.py"),
    *("test_security_page.py", "test_shell_blocks.py", "test_site.py", "test_spark_page.py", "test_tidy.py"),
    *("test_types.py", "test_works_with_page.py"),
]
"""Folders and modules whose subject is not compiled: it meets compiled code only through the broker and the clients,
which have tests of their own."""
NOT_COMPILED = frozenset(_TESTS / place for place in _PLACES)


def meets_compiled_code(item: pytest.Item) -> bool:
    return item.get_closest_marker("interpreted") is None and NOT_COMPILED.isdisjoint([item.path, *item.path.parents])
