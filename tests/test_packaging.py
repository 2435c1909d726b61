"""What is built and installed: one package in site-packages, which nobody's folders stand in the way of, and the module
by which Spark finds its format."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.timeout(300)  # builds, installs, and a run of pytest in one of pytest
FOREIGN = ("broker", "client", "pipeline", "protocol")
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
    result = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
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


def test_a_wheel_holds_one_package_and_all_of_it_and_the_module_that_spark_looks_for(wheel: Path) -> None:
    tracked = {path.relative_to(ROOT).as_posix() for name in FOREIGN for path in (ROOT / name).rglob("*.py")}
    assert {name.partition("/")[0] for name in files_of(wheel)} == {"oncelog", "pyspark_oncelog.py"}
    assert {f"oncelog/{name}" for name in tracked} <= files_of(wheel)


def test_a_wheel_from_the_source_distribution_is_the_same(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(ROOT, "sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("oncelog-*")
    assert files_of(build(source, "wheel", tmp_path / "wheel")) == files_of(wheel)


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


def test_tests_run_against_the_installed_wheel_among_foreign_packages(installed: dict[str, str], foreign: Path) -> None:
    copytree(ROOT / "tests", foreign / "tests", ignore=ignore_patterns("__pycache__"))
    (foreign / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    (foreign / "tests" / "test_where.py").write_text(
        f"import oncelog\n\n\ndef test_it() -> None:\n"
        f"    assert oncelog.__file__.startswith({installed['PYTHONPATH']!r})\n"
    )
    chosen = ["test_where.py", "unit/client", "daemon/test_client_sync.py"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *(f"tests/{name}" for name in chosen)]
    assert " passed" in run([*command, "-o", "addopts=-m 'not spark and not slow'"], foreign, installed)
