"""No command for a data directory leaves it by what its owner has put there: each entry that is no file of a broker is
refused by its name and kind, whichever command reads it, before anything is written; also if it is put there after the
look. What root makes there belongs to the owner."""

import os
import shutil
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.broker.storage.local.data_directory import BACKUP_SUMS
from oncelog.cli import main
from oncelog.tools.backup import restoring
from oncelog.tools.backup.copying import back_up, source_of
from oncelog.tools.backup.restoring import restore, sizes_of, sums_of
from oncelog.tools.held_directory import HeldDirectory
from tests.fakes.broker import VirtualBroker
from tests.support.logs.damage import TOPIC, fill
from tests.support.logs.data_directories import store
from tests.support.patience import ends
from tests.unit.oncelog.test_adopt import simple
from tests.unit.oncelog.test_irregular_files import LOG, WAITS_S, fifo, listening

SOMEBODY = 64_999
"""A user who owns nothing on this machine."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
METADATA = "__cluster_metadata-0"


def device(path: Path, _: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def link_to_file(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def link_to_directory(path: Path, secret: Path) -> None:
    path.symlink_to(secret.parent)


def link_to_nothing(path: Path, secret: Path) -> None:
    path.symlink_to(secret.with_name("nothing"))


def hard_link(path: Path, secret: Path) -> None:
    os.link(secret, path)
    os.chown(path.parent, SOMEBODY, SOMEBODY)


KINDS: dict[str, tuple[str, Callable[[Path, Path], None]]] = {
    "a link to a file": ("a symbolic link", link_to_file),
    "a link to a directory": ("a symbolic link", link_to_directory),
    "a link to nothing": ("a symbolic link", link_to_nothing),
    "a FIFO": ("a FIFO", lambda path, _: fifo(path)),
    "a socket": ("a socket", lambda path, _: listening(path)),
    "a device": ("a character device", device),
    "a hard link": ("a hard link to a file of another user", hard_link),
}
"""The name of each kind of entry, and how it is made; the file is one that no command may read."""
OF_ROOT = ("a device", "a hard link")
PLACES = ("extra", f"{TOPIC}-0/{LOG}", f"{TOPIC}-0")
"""The places of an entry: beside the directory's files, in place of a partition's file, in place of a partition's
directory.
"""
TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "backup": ("ours", ("backup", "{new}", "--data-dir", "{}")),
    "restore": ("backup", ("restore", "{}", "--data-dir", "{new}")),
    "adopt": ("kafkas", ("adopt", "{}", "--out", "{new}")),
    "adopt --copy": ("kafkas", ("adopt", "{}", "--out", "{new}", "--copy")),
    "graduate --out": ("ours", ("graduate", "{}", "--out", "{new}")),
    "graduate --copy": ("ours", ("graduate", "{}", "--out", "{new}", "--copy")),
    "graduate --in-place": ("ours", ("graduate", "{}", "--in-place", "--yes")),
}
"""The directory that each tool reads, and its arguments."""
REPORTERS: dict[str, tuple[str, ...]] = {
    "log repair": ("log", "repair", "{}", "--yes"),
    "user add": ("user", "add", "admin", "--data-dir", "{}"),
}
"""Commands that write into a directory, and report damaged files one by one."""


def run(*arguments: str | Path, typed: str = "") -> tuple[int, str]:
    with ends(WAITS_S):
        result = CliRunner().invoke(main, [*map(str, arguments)], input=typed)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A directory of each sort, with a partition of one name."""
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    broker.broker.logs.close()
    root = tmp_path_factory.mktemp("trees")
    store(broker.disk, root / "ours")
    assert run("backup", root / "backup", "--data-dir", root / "ours")[0] == 0
    kafkas = simple(root / "kafkas")
    (partition,) = (each for each in kafkas.iterdir() if each.name.endswith("-0") and not each.name.startswith("__"))
    if partition.name != f"{TOPIC}-0":
        partition.rename(kafkas / f"{TOPIC}-0")
    return {"ours": root / "ours", "backup": root / "backup", "kafkas": kafkas}


def in_place(tree: Path, place: str, make: Callable[[Path, Path], None]) -> None:
    path, secret = tree / place, tree.parent / "outside" / "secret"
    secret.parent.mkdir()
    secret.write_bytes(b"secret")
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make(path, secret)


def content(directory: Path) -> dict[str, bytes]:
    found = [each for each in sorted(directory.rglob("*")) if stat.S_ISREG(each.lstat().st_mode)]
    return {str(each.relative_to(directory)): each.read_bytes() for each in found}


def arguments_for(pattern: tuple[str, ...], tree: Path, new: Path) -> list[str]:
    return [{"{}": str(tree), "{new}": str(new)}.get(each, each) for each in pattern]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=as_root if kind in OF_ROOT else []) for kind in KINDS])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_command_refuses_the_entry_and_changes_nothing(
    tool: str, kind: str, place: str, tmp_path: Path, trees: dict[str, Path]
) -> None:
    """It names the entry and its kind, with exit code 2; the directory is as it was, and no other one is begun."""
    whose, pattern = TOOLS[tool]
    tree = Path(shutil.copytree(trees[whose], tmp_path / "one" / "tree"))
    called, make = KINDS[kind]
    in_place(tree, place, make)
    before = content(tree)
    exit_code, said = run(*arguments_for(pattern, tree, tmp_path / "new"))
    assert (exit_code, str(tree / place) in said, called in said) == (2, True, True), said
    assert kind != "a hard link" or "remove" not in said
    assert content(tree) == before
    assert [each.name for each in tmp_path.iterdir()] == ["one"]


@pytest.mark.parametrize("tool", REPORTERS)
def test_a_command_that_writes_into_a_directory_does_not_write_through_a_link(
    tool: str, tmp_path: Path, trees: dict[str, Path]
) -> None:
    """The link leads to a directory of a partition elsewhere, or to a file."""
    for place in (METADATA, f"{METADATA}/{LOG}"):
        tree = Path(shutil.copytree(trees["ours"], tmp_path / "one" / "tree"))
        elsewhere = tmp_path / "one" / "elsewhere"
        (tree / place).rename(elsewhere)
        (tree / place).symlink_to(elsewhere)
        before = content(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()
        exit_code, said = run(*arguments_for(REPORTERS[tool], tree, tmp_path / "new"), typed="secret\nsecret\n")
        assert exit_code != 0 and "a symbolic link" in said and (place in said or LOG in said), said
        assert (content(elsewhere) if elsewhere.is_dir() else elsewhere.read_bytes()) == before
        shutil.rmtree(tmp_path / "one")


# --- between the look and the use -------------------------------------------------------------------------------------


def swapped(tree: Path, place: str) -> None:
    """The owner of the directory puts a link there in the last moment."""
    path = tree / place
    target = path.parent / f".{path.name}"
    path.rename(target)
    path.symlink_to(target)


@pytest.mark.parametrize("place", [f"{TOPIC}-0/{LOG}", f"{TOPIC}-0"])
def test_a_backup_follows_no_link_that_comes_after_the_look(place: str, tmp_path: Path, trees: dict[str, Path]) -> None:
    tree = Path(shutil.copytree(trees["ours"], tmp_path / "tree"))
    with pytest.raises(OSError, match="symbolic link"), source_of(tree, 1) as source:
        swapped(tree, place)
        back_up(source, tmp_path / "new", lambda _: None)
    assert [each.name for each in tmp_path.iterdir()] == ["tree"]


@pytest.mark.parametrize("place", [f"{TOPIC}-0/{LOG}", f"{TOPIC}-0"])
def test_a_restoration_follows_no_link_that_comes_after_the_look(
    place: str, tmp_path: Path, trees: dict[str, Path]
) -> None:
    """Neither in what it reads nor in what it writes."""
    tree = Path(shutil.copytree(trees["backup"], tmp_path / "tree"))
    (tmp_path / "new").mkdir()
    with HeldDirectory(tree) as backup, HeldDirectory(tmp_path / "new") as new:
        sums = sums_of(backup)
        swapped(tree, place)
        with pytest.raises(OSError, match=r"symbolic link|Not a directory"):
            restore(backup, sums, new, lambda _: None)
    tree = Path(shutil.copytree(trees["backup"], tmp_path / "tree-2"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def swap(copied_bytes: int) -> None:
        """Replace the metadata log's directory as soon as it is there."""
        if (tmp_path / "new-2" / METADATA).is_dir() and not (tmp_path / "new-2" / METADATA).is_symlink():
            (tmp_path / "new-2" / METADATA).rename(tmp_path / "new-2" / "aside")
            (tmp_path / "new-2" / METADATA).symlink_to(elsewhere)

    (tmp_path / "new-2").mkdir()
    with HeldDirectory(tree) as backup, HeldDirectory(tmp_path / "new-2") as new:
        sums = sums_of(backup)
        assert sizes_of(backup, sums)
        with pytest.raises(OSError, match="symbolic link"):
            restore(backup, sums, new, swap)
    assert not list(elsewhere.iterdir())


@pytest.mark.parametrize("is_there", [False, True])
def test_a_restoration_fills_no_directory_that_is_put_in_the_place_of_its_own(
    is_there: bool, tmp_path: Path, trees: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory that a link leads to, which appears while the backup is read, keeps its files."""
    elsewhere, new = tmp_path / "elsewhere", tmp_path / "new"
    elsewhere.mkdir()
    (elsewhere / "job").write_bytes(b"content")
    if is_there:
        new.mkdir()

    def read_and_swapped(backup: HeldDirectory) -> dict[str, str]:
        if is_there:
            new.rename(tmp_path / "aside")
        new.symlink_to(elsewhere)
        return sums_of(backup)

    monkeypatch.setattr(restoring, "sums_of", read_and_swapped)
    exit_code, said = run("restore", trees["backup"], "--data-dir", new)
    assert exit_code != 0, said
    assert content(elsewhere) == {"job": b"content"}


def test_a_list_of_files_leads_nowhere_else(tmp_path: Path, trees: dict[str, Path]) -> None:
    """Neither the list of a backup nor that of an image does, which any writer of the directory may have forged."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    for name in (str(secret), "../secret", f"{TOPIC}-0/../../secret", "..", ".", f"../{TOPIC}-0/x", f"./{TOPIC}-0"):
        tree = Path(shutil.copytree(trees["backup"], tmp_path / "tree"))
        with (tree / BACKUP_SUMS).open("a") as sums:
            sums.write(f"{sha256(b'secret').hexdigest()}  {name}\n")
        assert run("restore", tree, "--data-dir", tmp_path / "new")[0] == 1, name
        with pytest.raises(OSError, match="is no name within it"), source_of(trees["ours"], 1) as source:
            back_up(source._replace(sizes={name: 6}), tmp_path / "new", lambda _: None)
        assert sorted(each.name for each in tmp_path.iterdir()) == ["secret", "tree"], name
        shutil.rmtree(tree)


def test_what_asks_a_broker_for_an_image_writes_through_no_link(tmp_path: Path, trees: dict[str, Path]) -> None:
    """`.backup.lock` and `.backup-wanted` lead to a file that a backup as root would empty or make."""
    for name in (".backup.lock", ".backup-wanted", ".lock"):
        tree = Path(shutil.copytree(trees["ours"], tmp_path / "tree"))
        victim = tmp_path / "victim"
        victim.write_bytes(b"content")
        (tree / name).unlink(missing_ok=True)
        (tree / name).symlink_to(victim)
        exit_code, said = run("backup", tmp_path / "new", "--data-dir", tree, "--timeout", "1")
        assert (exit_code, name in said, victim.read_bytes()) == (2, True, b"content"), said
        shutil.rmtree(tree)


def test_names_of_topics_with_two_dots_are_names(tmp_path: Path) -> None:
    """`a..b` is a topic, and its backup comes back."""
    broker = VirtualBroker()
    fill(broker, broker.time.wall_ms())
    broker.broker.logs.close()
    store(broker.disk, tmp_path / "data")
    shutil.copytree(tmp_path / "data" / f"{TOPIC}-0", tmp_path / "data" / "a..b-0")
    assert run("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")[0] == 0
    exit_code, said = run("restore", tmp_path / "backup", "--data-dir", tmp_path / "new")
    assert exit_code == 0, said
    assert (tmp_path / "new" / "a..b-0" / LOG).exists()


# --- whose it is ------------------------------------------------------------------------------------------------------


def owners(directory: Path) -> set[int]:
    return {each.lstat().st_uid for each in (directory, *directory.rglob("*"))}


@as_root
def test_what_root_restores_belongs_to_whom_it_belonged(tmp_path: Path, trees: dict[str, Path]) -> None:
    """Files belong to the user whose directory was backed up; to `--owner`; or to the owner of a directory that is
    there. The backup itself stays closed to that user.
    """
    tree = Path(shutil.copytree(trees["ours"], tmp_path / "tree"))
    for each in (tree, *tree.rglob("*")):
        os.chown(each, SOMEBODY, SOMEBODY)
    assert run("backup", tmp_path / "backup", "--data-dir", tree)[0] == 0
    made = (tmp_path / "backup").stat()
    assert (made.st_uid, stat.S_IMODE(made.st_mode)) == (0, 0o700)
    assert run("restore", tmp_path / "backup", "--data-dir", tmp_path / "recorded")[0] == 0
    assert owners(tmp_path / "recorded") == {SOMEBODY}
    assert run("restore", tmp_path / "backup", "--data-dir", tmp_path / "given", "--owner", str(SOMEBODY + 1))[0] == 0
    assert owners(tmp_path / "given") == {SOMEBODY + 1}
    (tmp_path / "there").mkdir()
    os.chown(tmp_path / "there", SOMEBODY + 2, SOMEBODY + 2)
    assert run("restore", tmp_path / "backup", "--data-dir", tmp_path / "there")[0] == 0
    assert owners(tmp_path / "there") == {SOMEBODY + 2}
    (tmp_path / "fresh" / "lost+found").mkdir(parents=True)
    assert run("restore", tmp_path / "backup", "--data-dir", tmp_path / "fresh")[0] == 0
    assert (tmp_path / "fresh" / "restored").stat().st_uid == (tmp_path / "fresh").stat().st_uid == SOMEBODY
    exit_code, said = run("restore", tmp_path / "backup", "--data-dir", tmp_path / "no", "--owner", "no-such-user")
    assert (exit_code, "there is no user 'no-such-user'" in said) == (2, True)


@as_root
@pytest.mark.parametrize("tool", ["log repair", "user add", "graduate --out", "graduate --in-place"])
def test_what_root_makes_in_a_directory_belongs_to_its_owner(tool: str, tmp_path: Path, trees: dict[str, Path]) -> None:
    """A broker that runs as its owner can use it afterwards; what root had there before stays root's."""
    tree = Path(shutil.copytree(trees["ours"], tmp_path / "tree"))
    if tool == "log repair":
        log = tree / f"{TOPIC}-0" / LOG
        log.write_bytes(b"\xff" * 100 + log.read_bytes()[100:])
    for each in (tree, *tree.rglob("*")):
        os.chown(each, SOMEBODY, SOMEBODY)
    if tool == "user add":  # it makes its lock
        (tree / ".lock").unlink(missing_ok=True)
    kept = tree / "roots"
    kept.touch(mode=0o600)
    pattern = REPORTERS[tool] if tool in REPORTERS else TOOLS[tool][1]
    exit_code, said = run(*arguments_for(pattern, tree, tmp_path / "new"), typed="secret\nsecret\n")
    assert exit_code == 0, said
    assert kept.stat().st_uid == 0
    kept.unlink()
    assert owners(tree) == {SOMEBODY}


@as_root
@pytest.mark.parametrize("tool", ["backup", "graduate --out", "graduate --copy", "graduate --in-place"])
def test_root_takes_a_hard_link_in_its_own_directory(tool: str, tmp_path: Path, trees: dict[str, Path]) -> None:
    """`oncelog adopt` by root makes such links, to the segments of Kafka's user."""
    tree = Path(shutil.copytree(trees["ours"], tmp_path / "tree"))
    os.chown(tree / f"{TOPIC}-0" / LOG, SOMEBODY, SOMEBODY)
    os.link(tree / f"{TOPIC}-0" / LOG, tmp_path / "kafkas")
    exit_code, said = run(*arguments_for(TOOLS[tool][1], tree, tmp_path / "new"))
    assert exit_code == 0, said


@as_root
def test_a_copy_that_root_owns_does_not_run_as_root(tmp_path: Path, trees: dict[str, Path]) -> None:
    """The bits for that are left behind with the file."""
    tree = Path(shutil.copytree(trees["ours"], tmp_path / "tree"))
    (tree / f"{TOPIC}-0" / "program").touch()
    (tree / f"{TOPIC}-0" / "program").chmod(0o6755)
    assert run("backup", tmp_path / "backup", "--data-dir", tree)[0] == 0
    assert stat.S_IMODE((tmp_path / "backup" / f"{TOPIC}-0" / "program").stat().st_mode) == 0o755
