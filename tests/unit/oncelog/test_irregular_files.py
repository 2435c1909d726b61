"""What is no regular file is refused by its name, by every command and start that reads a directory of files."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.broker.storage.local.boot_mark import NAME as BOOT_MARK
from oncelog.cli import main
from oncelog.pipeline.sink.files import LocalFiles
from tests.fakes.broker import VirtualBroker
from tests.support.logs.damage import fill
from tests.support.logs.data_directories import store
from tests.support.patience import ends
from tests.unit.oncelog.test_adopt import simple

pytestmark = pytest.mark.sampled(3)

WAITS_S = 120
"""Longer than a busy machine needs: only what waits for ever reaches it."""
LOG = f"{0:020d}.log"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_fifo(path: Path) -> None:
    pipe = Path(tempfile.mkdtemp(dir=path.parents[-2]), "a-pipe")
    os.mkfifo(pipe)
    path.symlink_to(pipe)


def link_to_file(path: Path) -> None:
    other = Path(tempfile.mkdtemp(dir=path.parents[-2]), "a-file")
    other.write_bytes(b"secret")
    path.symlink_to(other)


def listening(path: Path) -> None:
    directory = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{directory}/{path.name}")  # a path of a socket has 108 bytes at most
    os.close(directory)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


KINDS: dict[str, Callable[[Path], None]] = {
    "FIFO": fifo,
    "link to a FIFO": link_to_fifo,
    "link to a file": link_to_file,
    "socket": listening,
    "device": endless,
    "directory": folder,
}


def run(*arguments: str | Path) -> tuple[int, str]:
    with ends(WAITS_S):
        result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    directory = tmp_path_factory.mktemp("stopped")
    store(broker.disk, directory)  # killed: a start has work in every file
    return directory


def in_place_of(root: Path, name: str, kind: str) -> None:
    (root / name).unlink()
    KINDS[kind](root / name)


@pytest.mark.parametrize("kind", KINDS)
def test_adopt_and_graduate_refuse_it_before_they_change_anything(kind: str, tmp_path: Path, stopped: Path) -> None:
    kafka = simple(tmp_path / "kafka")
    names = [str(each.relative_to(kafka)) for each in sorted(kafka.rglob("*")) if each.is_file()]
    ours = [str(each.relative_to(stopped)) for each in sorted(stopped.rglob("*")) if each.is_file()]
    for tree, name, command in (
        *((kafka, each, ("adopt", "{}", "--out", tmp_path / "new")) for each in names),
        *((stopped, each, ("graduate", "{}", "--out", tmp_path / "new")) for each in ours if each != ".lock"),
    ):
        copy = tmp_path / "one" / "copy"
        shutil.copytree(tree, copy)
        in_place_of(copy, name, kind)
        if kind == "directory" and "/" not in name:
            before = None  # one that neither needs may be there
        else:
            before = sorted(copy.rglob("*"))
        arguments = [str(copy) if each == "{}" else each for each in command]
        exit_code, said = run(*arguments)
        if before is not None:
            assert exit_code == 2 and Path(name).name in said, (command[0], name, said)
            assert sorted(copy.rglob("*")) == before and not (tmp_path / "new").exists()
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
        shutil.rmtree(tmp_path / "one")


@pytest.mark.parametrize("kind", KINDS)
def test_commands_for_the_files_name_it(kind: str, tmp_path: Path, stopped: Path) -> None:
    partitions = [each.name for each in sorted(stopped.iterdir()) if (each / LOG).exists()]
    for partition in partitions:
        copy = tmp_path / "one" / "copy"
        shutil.copytree(stopped, copy)
        in_place_of(copy, f"{partition}/{LOG}", kind)
        for command in (
            ("log", "verify", copy),
            ("log", "repair", copy, "--yes"),
            ("log", "dump", copy / partition),
            ("log", "map", copy / partition),
        ):
            exit_code, said = run(*command)
            assert exit_code in (1, 2) and LOG in said, (command[1], partition, said)
        shutil.rmtree(tmp_path / "one")


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_start_names_it_and_serves_the_rest_or_refuses(tmp_path: Path, stopped: Path, every: int) -> None:
    """Each file alone, of which one in so many is a sample."""
    names = [str(each.relative_to(stopped)) for each in sorted(stopped.rglob("*")) if each.is_file()]
    for name in names[::every]:
        if name == BOOT_MARK:  # what cannot be read there proves nothing, and is replaced
            continue
        copy = tmp_path / "one" / "copy"
        shutil.copytree(stopped, copy)
        in_place_of(copy, name, "FIFO")
        command = [sys.executable, "-m", "oncelog", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(copy)]
        with (tmp_path / "said").open("w") as said:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            with ends(WAITS_S):
                assert process.stdout is not None
                is_ready = process.stdout.readline().startswith("oncelog ready")
                process.terminate()
                process.wait()
        finally:
            process.kill()
            process.wait()
        assert Path(name).name in (tmp_path / "said").read_text(), (name, is_ready)
        shutil.rmtree(tmp_path / "one")


def test_checkpoint_of_a_query_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0")
    with ends(WAITS_S), pytest.raises(OSError, match="no regular file"):
        LocalFiles(tmp_path).read("0")
