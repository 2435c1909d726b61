"""Notes in shared memory: one whose directory was removed is removed when the next is made, and no other is."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from oncelog.broker.system import shared_notes
from oncelog.broker.system.shared_notes import SharedNotes
from oncelog.testing import Broker
from tests.support.processes.shared_notes import notes_below as notes_in


@pytest.fixture(autouse=True)
def shared_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of this test's own for notes: brokers that other tests start remove what they find beside their own."""
    if not shared_notes._is_in_memory():
        pytest.skip("no /dev/shm here")
    with TemporaryDirectory(dir=shared_notes._ROOT) as own:
        monkeypatch.setattr(shared_notes, "_ROOT", own)
        monkeypatch.setattr(shared_notes, "_is_in_memory", lambda: True)
        yield Path(own)


def notes_below(directory: Path) -> list[Path]:
    return notes_in(directory, Path(shared_notes._ROOT))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory for which a note was made."""
    made = tmp_path / "data"
    made.mkdir()
    (tmp_path / "another").mkdir()  # before: an inode that is free again would be its
    make(made)
    assert notes_below(tmp_path)
    return made


def make(directory: Path) -> str:
    notes = SharedNotes(str(directory))
    name = notes.new_name()
    notes.create(name)
    return name


def names_after_another_start(tmp_path: Path) -> set[str]:
    mine = make(tmp_path / "another")
    return {note.name.removeprefix("oncelog-") for note in notes_below(tmp_path)} - {mine}


def test_the_note_of_a_directory_that_was_removed_is_removed_when_the_next_is_made(
    directory: Path, tmp_path: Path
) -> None:
    shutil.rmtree(directory)
    assert not names_after_another_start(tmp_path)


def test_that_of_one_that_was_removed_and_made_again_goes_too(directory: Path, tmp_path: Path) -> None:
    directory.rename(tmp_path / "old")
    directory.mkdir()
    shutil.rmtree(tmp_path / "old")
    assert not names_after_another_start(tmp_path)


@pytest.mark.parametrize(
    "why",
    [
        "it is there",
        "renamed",
        "what it was in is renamed",
        "its file system is not mounted",
        "another mount namespace",
        "another user's",
        "of an earlier version",
        "the path is too long",
        "it cannot be looked at",
    ],
)
def test_a_note_stays_that_a_start_may_look_for(
    why: str, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (note,) = notes_below(tmp_path)
    match why:
        case "renamed":
            directory.rename(tmp_path / "later")
        case "what it was in is renamed":
            note.unlink()
            (tmp_path / "a" / "data").mkdir(parents=True)
            note = note.with_name(f"oncelog-{make(tmp_path / 'a' / 'data')}")
            (tmp_path / "a").rename(tmp_path / "b")
        case "its file system is not mounted":
            shutil.rmtree(directory)
            data = bytearray(note.read_bytes())
            data[0] ^= 1  # the device
            note.write_bytes(data)
        case "another mount namespace":
            shutil.rmtree(directory)
            here = shared_notes._namespace()
            monkeypatch.setattr(shared_notes, "_namespace", lambda: (here[0] + 1, *here[1:]))
        case "another user's":
            shutil.rmtree(directory)
            monkeypatch.setattr("os.geteuid", lambda: 4_711)
        case "of an earlier version":
            shutil.rmtree(directory)
            note.write_bytes(note.read_bytes()[:-1024] + bytes(1024))
        case "the path is too long":
            note.unlink()
            deep = directory / "/".join(["d" * 200] * 5)
            deep.mkdir(parents=True)
            note = note.with_name(f"oncelog-{make(deep)}")
            shutil.rmtree(directory)
        case "it cannot be looked at":
            shutil.rmtree(directory)

            def refused(path: str) -> bool:
                raise PermissionError(path)

            monkeypatch.setattr("os.path.lexists", refused)
    names_after_another_start(tmp_path)
    monkeypatch.undo()
    assert note.exists()


def test_a_note_that_has_grown_still_says_where_its_directory_is(directory: Path, tmp_path: Path) -> None:
    notes = SharedNotes(str(directory))
    note = notes.create(notes.new_name())
    assert note is not None
    count = len(note.words)
    note.words[count - 1] = 7
    note.grow(10_000)
    assert note.words[count - 1] == 7
    assert not any(note.words[count:]), "a kill may leave them to be read"
    note.words[9_999] = 8
    assert len(notes_below(tmp_path)) == 2
    found = notes.open(note.name)
    assert found is not None
    assert (found.words[count - 1], found.words[9_999]) == (7, 8)
    shutil.rmtree(directory)
    assert not names_after_another_start(tmp_path)


def test_a_broker_of_the_fixture_that_was_killed_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _ in range(2):
        with Broker(storage="disk") as broker:
            assert len(notes_below(tmp_path)) == 1
            broker.kill()
            assert len(notes_below(tmp_path)) == 1
    assert not notes_below(tmp_path)
