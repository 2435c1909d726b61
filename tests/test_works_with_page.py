"""docs/compare/works-with.md comes from a run of `make interop`, and lists all that there is."""

import re
from pathlib import Path

from tools import interop

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "compare" / "works-with.md").read_text(encoding="utf-8")
MODULES = sorted(path.stem for path in (ROOT / "tests" / "interop").glob("test_*.py"))
WRITE = "run make proof WHAT=works-with"


def test_each_module_of_real_clients_is_on_the_page() -> None:
    listed = sorted(re.findall(r"^`tests/interop/(\w+)\.py`$", PAGE, re.MULTILINE))
    assert listed == MODULES, WRITE


def test_each_module_belongs_to_one_client_and_each_client_has_one() -> None:
    assert {interop.client_of(module) for module in MODULES} == set(interop.CLIENTS), "see CLIENTS in tools/interop.py"


def test_nothing_on_the_page_has_failed() -> None:
    results = re.findall(r"^\|.*\| ([^|]+) \|$", PAGE, re.MULTILINE)
    heads = re.findall(r"\| ([^|]+) \|\n\|---", PAGE)
    assert set(results) - set(heads) == {"passed", "–"} and "**" not in PAGE, WRITE


def test_a_table_shows_what_passed_failed_and_was_not_run(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    results.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.interop.test_kcat" name="test_it_works[lz4]"><properties>
          <property name="client_version" value="1.7.1"/></properties></testcase>
        <testcase classname="tests.interop.test_kcat" name="test_it_works[zstd]"><failure/></testcase>
        <testcase classname="tests.interop.test_kcat" name="test_it_lists"/>
        <testcase classname="tests.interop.test_franz_go" name="test_it_works"><skipped/></testcase>
        <testcase classname="tests.interop.test_secured_clients" name="test_it_logs_in[1]"><properties>
          <property name="secured" value="Java, PLAIN"/></properties></testcase>
        <testcase classname="tests.interop.test_secured_clients" name="test_it_logs_in[2]"><properties>
          <property name="secured" value="KafkaJS, OAUTHBEARER"/></properties><failure/></testcase>
        </testsuite></testsuites>"""
    )
    lines = interop.table(results).splitlines()
    assert "| kcat (librdkafka) | 1.7.1 | 2 | 1 of 3 failed |" in lines
    assert "| franz-go (Go: kgo, kadm) | – | 1 | not run |" in lines
    assert "- it lists" in lines
    assert "- it works — **1 of 2 failed**" in lines
    assert lines[lines.index("| client | PLAIN | OAUTHBEARER |") :][2:4] == [
        "| Java | passed | – |",
        "| KafkaJS | – | failed |",
    ]
