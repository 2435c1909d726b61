"""`make release-check` lets a release pass whose tag, distributions and changelog agree, and no other."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
CHANGELOG = "# Changelog\n\n## {}\n\n- What changed.\n\n## 0.1.0 (2026-11-01)\n"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = spec_from_file_location("release_check", ROOT / "tools" / "release_check.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("version", "tag", "section"),
    [("0.2.0", "v0.2.0", "0.2.0 (2026-11-23)"), ("0.2.0.dev3+gabc", None, "0.2.0 (unreleased)")],
)
def test_what_agrees_passes(tool: ModuleType, version: str, tag: str | None, section: str) -> None:
    assert version in tool.consistent(version, tag, CHANGELOG.format(section))


@pytest.mark.parametrize(
    ("version", "tag", "section", "hint"),
    [
        ("0.2.0", "v0.2.1", "0.2.0 (2026-11-23)", "tag it v0.2.0"),
        ("0.2.0", "v0.2.0", "0.2.0 (unreleased)", "must begin with '## 0.2.0 (YYYY-MM-DD)'"),
        ("0.2.0", "v0.2.0", "0.1.9 (2026-11-23)", "must begin with '## 0.2.0 (YYYY-MM-DD)'"),
        ("0.2.0.dev3+gabc", None, "0.2.0 (2026-11-23)", "tag it v0.2.0"),
    ],
)
def test_what_does_not_agree_is_refused_with_what_to_do(
    tool: ModuleType, version: str, tag: str | None, section: str, hint: str
) -> None:
    with pytest.raises(tool.NotReady, match=re.escape(hint)):
        tool.consistent(version, tag, CHANGELOG.format(section))


def test_the_changelog_of_this_tree_has_a_section_to_compare(tool: ModuleType) -> None:
    assert tool.VERSION.search((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
