"""What is built and installed: one package in site-packages, which folders of the same names do not hide, and the
modules by which Spark finds its format and pytest its fixtures."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from tests.support.logs.archives import unpack
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
FOREIGN = ("broker", "client", "pipeline", "protocol")
LEFT_OUT = {".gitattributes"}
PROGRAM = """
import asyncio, sys
from oncelog import Admin, Consumer, NewTopic, Producer

async def main(bootstrap):
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics(NewTopic("topic", 1))
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send("topic", b"value")
    async with Consumer("topic", bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            print(record.value, sorted({"broker", "client", "pipeline", "protocol"} & set(sys.modules)))
            return

asyncio.run(main(sys.argv[1]))
"""


def run(command: Sequence[str | Path], cwd: Path, env: Mapping[str, str] = os.environ) -> str:
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def build(source: Path, kind: str, target: Path) -> Path:
    run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target], source)
    (built,) = target.iterdir()
    return built


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    return {name for name in names if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacked."""
    path = tmp_path_factory.mktemp("sdist")
    unpack(build(ROOT, "sdist", path / "built"), path)
    (source,) = path.glob("oncelog-*")
    return source


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the wheel is what `import oncelog` finds."""
    site = tmp_path_factory.mktemp("site")
    run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel], site)
    return {**os.environ, "PYTHONPATH": str(site)}


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder full of packages of others with the names of our folders."""
    for name in FOREIGN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('a package of somebody else')")
    return tmp_path


def test_a_wheel_holds_one_package_and_all_of_it_and_the_modules_that_spark_and_pytest_load(wheel: Path) -> None:
    tracked = {path.relative_to(ROOT).as_posix() for name in FOREIGN for path in (ROOT / name).rglob("*.py")}
    assert {name.partition("/")[0] for name in files_of(wheel)} == {
        "oncelog",
        "pyspark_oncelog.py",
        "pytest_oncelog.py",
    }
    assert {f"oncelog/{name}" for name in tracked} <= files_of(wheel)


def test_a_wheel_holds_the_pages_of_the_console(wheel: Path) -> None:
    wanted = [path for folder in ("templates", "static") for path in (ROOT / "oncelog/console" / folder).iterdir()]
    assert wanted and {path.relative_to(ROOT).as_posix() for path in wanted} <= files_of(wheel)


def test_a_wheel_from_the_source_distribution_is_the_same(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    again = build(sdist, "wheel", tmp_path)
    assert (again.name, files_of(again)) == (wheel.name, files_of(wheel)), "of another version, or with other files"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
def test_a_source_distribution_holds_every_file_of_the_repository(sdist: Path) -> None:
    """All tracked files are in it, among them those that the tests read: the tests run from it."""
    tracked = {ROOT / name for name in run(["git", "ls-files", "-z"], ROOT).split("\0") if name}
    names = {path.relative_to(ROOT).as_posix() for path in tracked if path.is_file()}
    missing = {name for name in names if not (sdist / name).is_file()} - LEFT_OUT
    assert missing == set(), "add it to only-include of [tool.hatch.build.targets.sdist]"


def test_both_distributions_have_the_licence_the_notice_and_a_description_without_links_to_files(
    wheel: Path, sdist: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
        licences = {name.rpartition("/")[2] for name in archive.namelist() if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"} and (sdist / "NOTICE").exists() and (sdist / "LICENSE").exists()
    assert metadata == (sdist / "PKG-INFO").read_text()
    description = metadata.partition("\n\n")[2]
    assert "make demo" in description and re.findall(r"\]\((?!https?://)[^)]*\)", description) == []


@pytest.mark.parametrize(("told", "version"), [("1.2.3", "1.2.3"), ("", "0.0.0.dev0")])
def test_without_git_the_version_is_what_the_builder_says_or_none_of_a_release(
    sdist: Path, tmp_path: Path, told: str, version: str
) -> None:
    """The cases are the build of an image, and an archive of the repository."""
    source = tmp_path / "source"
    copytree(sdist, source)
    (source / "PKG-INFO").unlink()
    env = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION_FOR_ONCELOG": told}
    assert run([sys.executable, "-m", "hatchling", "version"], source, env).strip() == version


def test_an_installed_broker_and_client_work_among_foreign_packages(installed: dict[str, str], foreign: Path) -> None:
    command = [sys.executable, "-m", "oncelog", "serve", "--listen", "127.0.0.1:0", "--data-dir", "data"]
    (foreign / "program.py").write_text(PROGRAM)
    with subprocess.Popen(command, cwd=foreign, env=installed, stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stdout is not None
            bootstrap = daemon.stdout.readline().split()[-1]
            assert run([sys.executable, "program.py", bootstrap], foreign, installed) == "b'value' []\n"
        finally:
            daemon.terminate()


def test_pytest_does_not_rewrite_the_modules_of_an_installed_oncelog(installed: dict[str, str], tmp_path: Path) -> None:
    """It would rewrite those of every package in a distribution that has a plugin."""
    (tmp_path / "test_it.py").write_text(
        "import sys\n\n\ndef test_it(oncelog_broker) -> None:\n"
        "    loaded = {name: module for name, module in sys.modules.items() if name.partition('.')[0] == 'oncelog'}\n"
        f"    assert loaded['oncelog'].__file__.startswith({installed['PYTHONPATH']!r})\n"
        "    assert 'oncelog.broker.assembly' in loaded\n"
        "    assert {type(module.__loader__).__module__ for module in loaded.values()} == {SOURCES}\n"
        "SOURCES = '_frozen_importlib_external'\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"]
    assert "1 passed" in run(command, tmp_path, installed)


def test_clients_import_nothing_that_only_posix_has() -> None:
    lacking = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({lacking!r}))\n"
        "import oncelog, oncelog.cli, oncelog.sync, pytest_oncelog\n"
        "[getattr(module, name) for module in (oncelog, oncelog.sync) for name in dir(module)]"
    )
    run([sys.executable, "-c", code], ROOT)


@pytest.mark.parametrize(
    "tests", ["unit/client/test_accumulator.py", pytest.param("unit/client", marks=pytest.mark.slow)]
)
def test_tests_run_against_the_installed_wheel_among_foreign_packages(
    installed: dict[str, str], foreign: Path, tests: str
) -> None:
    copytree(ROOT / "tests", foreign / "tests", ignore=ignore_patterns("__pycache__"))
    (foreign / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (foreign / "tests" / "test_where.py").write_text(
        f"import oncelog\n\n\ndef test_it() -> None:\n"
        f"    assert oncelog.__file__.startswith({installed['PYTHONPATH']!r})\n"
    )
    chosen = ["test_where.py", tests, "daemon/test_client_sync.py"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(f"tests/{name}" for name in chosen)]
    assert " passed" in run([*command, "-o", "addopts=-m 'not spark and not slow'"], foreign, installed)
