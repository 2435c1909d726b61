"""The site that `make docs` builds: each page is in the nav of mkdocs.yml and in docs/index.md, which name no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
PAGES = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


def test_each_page_is_in_the_nav_once() -> None:
    named = re.findall(r"^ +- (\S+\.md)$", NAV, re.MULTILINE)
    missing = sorted(set(PAGES).difference(named))
    assert missing == [], f"add to nav in mkdocs.yml, where a reader would look for it: {missing}"
    assert sorted(named) == PAGES, "mkdocs.yml names a page twice, or one that is gone"


def test_a_section_of_the_nav_is_a_folder() -> None:
    sections = re.findall(r"^  - (\w+):\n((?: {6}- \S+\n)+)", NAV, re.MULTILINE)
    assert len(sections) > 5
    for title, pages in sections:
        assert {page.partition("/")[0] for page in re.findall(r"- (\S+)", pages)} == {title.lower()}


def test_the_index_links_to_each_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([\w/-]+\.md)\)", index)
    assert sorted(["index.md", *linked]) == PAGES, "docs/index.md lacks a page, or links to it twice"


def test_the_readme_can_be_read_in_a_minute() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 120
    commands = "".join(re.findall(r"^```bash\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)).splitlines()
    assert [re.split(r" {2,}", line)[0] for line in commands if line][:2] == ["make demo", "make test"]


def test_no_two_pages_have_one_title() -> None:
    """The nav shows a reader only the title of a page."""
    titles = [path.read_text(encoding="utf-8").partition("\n")[0] for path in (ROOT / "docs").rglob("*.md")]
    assert all(title.startswith("# ") for title in titles)
    assert sorted(titles) == sorted(set(titles))
