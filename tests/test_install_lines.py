"""Each line of README and docs that installs this package, or upgrades it, is run as it stands there, in a source
distribution or beside two wheels: it installs that, and no name that a package index would be asked for, and the
version that it prints is the one that was built."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.logs.archives import unpack
from tests.support.patience import PATIENCE_S
from tools.install_lines import PAGES, SAYS_ITS_VERSION, commands_of

ROOT = Path(__file__).parent.parent
ONE_VM = ROOT / "docs" / "operate" / "one-vm.md"
LINES = sorted({line for page in PAGES if page != ONE_VM for line in commands_of(page.read_text(encoding="utf-8"))})
NAME = re.compile(r"(?<!\S)['\"]?oncelog(\[[^\]]*\])?['\"]?(?=\s|$)(?!\s*@)")
OLD, NEW, SOURCES = "0.9.0", "0.9.1", "0.9.2"


def built(kind: str, version: str, target: Path) -> Path:
    """A distribution of this tree, by its version."""
    env = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": version}
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, timeout=PATIENCE_S)
    (made,) = target.iterdir()
    return made


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which pip has no network, and every package but this one."""
    directory = tmp_path_factory.mktemp("others")
    for site in (Path(each) for each in sys.path if each.endswith("site-packages")):
        for entry in site.iterdir():
            if not re.match(r"_?oncelog|pip|__pycache__", entry.name) and not (directory / entry.name).exists():
                (directory / entry.name).symlink_to(entry)
    programs = tmp_path_factory.mktemp("programs")
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (programs / "python3").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "VIRTUAL_ENV"))}
    return {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(directory),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # to pip this means that there is none
        "PIP_QUIET": "1",
    }


def typed(script: str, directory: Path, env: dict[str, str]) -> list[str]:
    """Run the script in a shell and return what it prints, by line; every command succeeds."""
    run = subprocess.run(
        ["bash", "-ec", script], cwd=directory, env=env, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout.splitlines()


@pytest.mark.slow
def test_each_line_installs_the_sources_and_says_their_version(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, others: dict[str, str]
) -> None:
    unpack(built("sdist", SOURCES, tmp_path_factory.mktemp("sdist")), tmp_path)
    (checkout,) = tmp_path.iterdir()
    for number, line in enumerate(LINES):
        begun = f"python3 -m venv ../venv-{number} && . ../venv-{number}/bin/activate\n"
        printed = typed(f"{begun}{line}", checkout, others)
        assert printed and printed[-1].startswith(f"oncelog, version {SOURCES},"), (line, printed)


@pytest.mark.slow
def test_the_upgrade_of_one_vm_is_one_and_so_is_the_way_back(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, others: dict[str, str]
) -> None:
    """The lines of the page upgrade the wheel that was there to that of `next`, and go back to the first one."""
    (tmp_path / "next").mkdir()
    for version, place in ((OLD, tmp_path), (NEW, tmp_path / "next")):
        wheel = built("wheel", version, tmp_path_factory.mktemp("wheel"))
        wheel.rename(place / wheel.name)
    first, upgrade = commands_of(ONE_VM.read_text(encoding="utf-8"))
    back = re.findall(r"`(pip install [^`]*)`\), and put the backup", ONE_VM.read_text(encoding="utf-8"))
    script = "\n".join(("export PATH=$PWD/venv/bin:$PATH", first, upgrade, *back, SAYS_ITS_VERSION))
    printed = typed(script, tmp_path, others)
    assert [line.split()[2].rstrip(",") for line in printed if line.startswith("oncelog, version")] == [OLD, NEW, OLD]


def test_no_line_asks_for_a_name_and_each_says_the_version() -> None:
    """Options between the words, a name after others: however it is written; in the examples, too."""
    for page in (*PAGES, *sorted((ROOT / "examples").rglob("*.py"))):
        text = page.read_text(encoding="utf-8")
        for what in re.findall(r"pip install([^`\n#&;]*)", text):
            assert not NAME.search(what), (page, what)
        for line in commands_of(text):
            assert SAYS_ITS_VERSION in line.partition("#")[0], (page, line)


def test_each_extra_that_a_page_names_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {
        extra
        for page in PAGES
        for extras in re.findall(r"pip install\s+'\.\[([^\]]+)\]'", page.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert named and named <= project["optional-dependencies"].keys()
