"""The shim starts the other Java with every argument but the one that it cannot take."""

import subprocess
from pathlib import Path

import pytest

from oncelog.pipeline.java import _SHIM, QUICK_START, _with_class_archive, version_of


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_shim_drops_the_missing_module_and_keeps_the_rest_as_it_was(tmp_path: Path) -> None:
    java = executable(tmp_path / "real", '#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    shim = executable(tmp_path / "bin" / "java", _SHIM.format(java=java))
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "Main", "", "--add-modules=x"]
    answer = subprocess.run([str(shim), *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["<-cp>", "<a b:*>", "<Main>", "<>", "<--add-modules=x>"]


def test_a_java_that_reports_no_version_does_not_count(tmp_path: Path) -> None:
    java = executable(tmp_path / "java", "#!/bin/sh\necho 'openjdk version \"21.0.8\" 2025-07-15' >&2\n")
    assert version_of(java) == 21
    assert version_of(tmp_path / "missing") is None


def test_a_session_starts_with_the_archive_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that makes it does not, and none where a blank in the path would part it in two."""
    archive = tmp_path / "classes.jsa"
    monkeypatch.setattr("oncelog.pipeline.java.CLASS_ARCHIVE", archive)
    (options,) = _with_class_archive(QUICK_START).values()
    assert options.startswith(f"{QUICK_START['spark.driver.extraJavaOptions']} -XX:SharedArchiveFile={archive} ")
    assert f"-XX:SharedArchiveFile={archive}" in _with_class_archive({})["spark.driver.extraJavaOptions"]
    making = {"spark.driver.extraJavaOptions": "-XX:ArchiveClassesAtExit=x"}
    assert _with_class_archive(making) == making
    monkeypatch.setattr("oncelog.pipeline.java.CLASS_ARCHIVE", tmp_path / "a b")
    assert _with_class_archive(QUICK_START) == QUICK_START
