"""`make release-check` lets a release pass whose tag, distributions and changelog agree, and no other."""

import json
import os
import re
import subprocess
import sys
from email.message import Message
from pathlib import Path
from shutil import copy

import pytest

from tools import release_check

ROOT = Path(__file__).parent.parent
CHANGELOG = "# Changelog\n\n## {}\n\n- What changed.\n\n## 0.1.0 (2026-11-01)\n"


@pytest.mark.parametrize(
    ("version", "tag", "section"),
    [("0.2.0", "v0.2.0", "0.2.0 (2026-11-23)"), ("0.2.0.dev3+gabc", None, "0.2.0 (unreleased)")],
)
def test_what_agrees_passes(version: str, tag: str | None, section: str) -> None:
    assert version in release_check.consistent(version, tag, CHANGELOG.format(section))


@pytest.mark.parametrize(
    ("version", "tag", "section", "hint"),
    [
        ("0.2.0", "v0.2.1", "0.2.0 (2026-11-23)", "tag it v0.2.0"),
        ("0.2.0", "v0.2.0", "0.2.0 (unreleased)", "must begin with '## 0.2.0 (YYYY-MM-DD)'"),
        ("0.2.0", "v0.2.0", "0.1.9 (2026-11-23)", "must begin with '## 0.2.0 (YYYY-MM-DD)'"),
        ("0.2.0.dev3+gabc", None, "0.2.0 (2026-11-23)", "tag it v0.2.0"),
    ],
)
def test_what_does_not_agree_is_refused_with_what_to_do(version: str, tag: str | None, section: str, hint: str) -> None:
    with pytest.raises(release_check.NotReady, match=re.escape(hint)):
        release_check.consistent(version, tag, CHANGELOG.format(section))


def presented(urls: bool, pictures: bool) -> Message:
    metadata = Message()
    if urls:
        metadata["Project-URL"] = "Source, https://source.example"
    metadata.set_payload(
        "![a picture](https://source.example/a.svg)" if pictures else "[all limits](https://a.example)"
    )
    return metadata


@pytest.mark.parametrize(("urls", "pictures", "lacking"), [(False, True, "no address"), (True, False, "no picture")])
def test_a_tag_is_refused_while_a_package_index_would_show_no_pictures_or_no_links(
    urls: bool, pictures: bool, lacking: str
) -> None:
    with pytest.raises(release_check.NotReady, match=f"{lacking}.*docs/contribute/releasing.md"):
        release_check.presentable(presented(urls, pictures), "v0.2.0")
    assert lacking in release_check.presentable(presented(urls, pictures), None)
    assert "pictures: 1" in release_check.presentable(presented(True, True), "v0.2.0")


def test_what_the_page_says_to_write_gives_every_picture_and_link_an_address(tmp_path: Path) -> None:
    """Each leads to a file of the repository, and the result is ready for a tag."""
    page = (ROOT / "docs" / "contribute" / "releasing.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    urls, _, substitutions = block.replace("SOURCE", "https://source.example").partition("\n\n")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    before, hook, after = project.partition("[tool.hatch.metadata.hooks.fancy-pypi-readme]")
    rest = after.partition("substitutions = [")[2].partition("\n]\n")[2]
    kept = after.partition("substitutions = [")[0]
    written = substitutions.partition("substitutions = [")
    (tmp_path / "pyproject.toml").write_text(f"{before}{urls}\n\n{hook}{kept}{written[1]}{written[2]}\n{rest}")
    for name in ("README.md", "LICENSE", "NOTICE", "hatch_build.py"):
        copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "hatchling", "metadata"]
    env = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_ONCELOG": "0.2.0"}
    built = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    description = json.loads(built.stdout)["readme"]["text"]
    links = re.findall(r"\]\(([^)]*)\)", description)
    pictures = [link for link in links if "/raw/" in link]
    assert len(pictures) >= 4 and all(link.startswith("https://") for link in links)
    ours = [link for link in links if link.startswith("https://source.example/")]
    assert all((ROOT / re.split("/main/|#", link)[1]).exists() for link in ours)
    metadata = presented(urls=True, pictures=False)
    metadata.set_payload(description)
    assert f"pictures: {len(pictures)}" in release_check.presentable(metadata, "v0.2.0")


def test_the_client_of_this_tree_sends_brokers_the_next_version_and_another_is_refused() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    client = (ROOT / release_check.CLIENT).read_text(encoding="utf-8")
    assert release_check.VERSION.search(changelog)[1] in release_check.announced(client, changelog)
    what_to_do = "write SOFTWARE_VERSION = '9.9.0' in oncelog/client/wire/connection.py"
    with pytest.raises(release_check.NotReady, match=re.escape(what_to_do)):
        release_check.announced(client, CHANGELOG.format("9.9.0 (unreleased)"))
