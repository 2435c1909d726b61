"""The site that `make docs` builds: each page is in the nav of mkdocs.yml, and the nav names no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
_IN_NAV = re.compile(r"^ +- (\S+\.md)$", re.MULTILINE)


def test_each_page_is_in_the_nav_once() -> None:
    named = _IN_NAV.findall((ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2])
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    missing = sorted(pages.difference(named))
    assert missing == [], f"add to nav in mkdocs.yml, where a reader would look for it: {missing}"
    assert sorted(named) == sorted(pages), "mkdocs.yml names a page twice, or one that is gone"


def test_no_two_pages_have_one_title() -> None:
    """In the nav a title is all that a reader sees of a page."""
    titles = [path.read_text(encoding="utf-8").partition("\n")[0] for path in (ROOT / "docs").rglob("*.md")]
    assert all(title.startswith("# ") for title in titles)
    assert sorted(titles) == sorted(set(titles))
