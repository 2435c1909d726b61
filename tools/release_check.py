"""What must hold before a release, as far as a machine can say: `make release-check`, or

    python tools/release_check.py [PYTHON ...]          interpreters to install with; without: the one that runs this

Builds both distributions from the tree, has twine check them, compares their version with the tag and the changelog,
and looks at what a package index will show. Then, with each interpreter, installs each of them in an empty environment,
starts the broker, and sends a record through it. Stops at the first thing that does not hold, with what to do.
docs/contribute/releasing.md has the whole list.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r"^## (\S+) \(([^)]*)\)$", re.MULTILINE)
ANNOUNCED = re.compile(r'^SOFTWARE_VERSION = "(.+)"$', re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]*\]\(https://[^)]+\)")
READY = "oncelog ready "
CLIENT = "oncelog/client/wire/connection.py"
RECORD = "a record of the release check"


class NotReady(Exception):
    """What does not hold, and what to do."""


def main(pythons: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="oncelog-release-") as scratch:
        try:
            wheel, sdist = built(Path(scratch, "dist"))
            say("built", f"{wheel.name}, {sdist.name}")
            run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
            say("twine check", "both pass")
            metadata = metadata_of(wheel)
            version = checked_version(metadata, sdist)
            changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
            say("version", consistent(version, tag(), changelog))
            say("client", announced((ROOT / CLIENT).read_text(encoding="utf-8"), changelog))
            say("description", presentable(metadata, tag()))
            for python in pythons:
                for distribution in (wheel, sdist):
                    place = Path(scratch, f"{Path(python).name}-{distribution.suffix[1:]}")
                    say("installed and served", installed_and_served(python, distribution, version, place))
        except NotReady as error:
            sys.exit(f"NOT READY: {error}")
    print("ready, as far as this can say; docs/contribute/releasing.md has the rest")


def built(target: Path) -> tuple[Path, Path]:
    """A wheel, made from the source distribution as others will make it, and the source distribution."""
    run(sys.executable, "-m", "build", "--outdir", target, ROOT)
    (wheel,), (sdist,) = target.glob("*.whl"), target.glob("*.tar.gz")
    return wheel, sdist


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def checked_version(metadata: Message, sdist: Path) -> str:
    version = str(metadata["Version"])
    if sdist.name != f"oncelog-{version}.tar.gz":
        raise NotReady(f"the wheel is of version {version}, the source distribution is {sdist.name}")
    return version


def presentable(metadata: Message, tag: str | None) -> str:
    """What a package index will show. Raises NotReady for a release of which it would show no pictures or no links."""
    urls = metadata.get_all("Project-URL") or []
    pictures = PICTURE.findall(str(metadata.get_payload()))
    if urls and pictures:
        return f"addresses: {len(urls)}, pictures: {len(pictures)}"
    lacking = "no address of the project" if not urls else "no picture"
    if tag is None:
        return f"{lacking}: a release would be refused (docs/contribute/releasing.md, What waits for a public address)"
    raise NotReady(
        f"a package index would show {lacking}: write [project.urls] and the substitutions of the description into "
        "pyproject.toml, as docs/contribute/releasing.md says under What waits for a public address"
    )


def tag() -> str | None:
    """Of this commit, if it has one and nothing is changed."""
    command = ["git", "describe", "--tags", "--exact-match", "--dirty", "--match", "v*"]
    described = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    name = described.stdout.strip()
    return None if described.returncode or name.endswith("-dirty") else name


def consistent(version: str, tag: str | None, changelog: str) -> str:
    """What was compared. Raises NotReady where version, tag and the newest section of the changelog differ."""
    newest = VERSION.search(changelog)
    if newest is None:
        raise NotReady("CHANGELOG.md has no section: write '## VERSION (unreleased)' and what changed for users")
    section, date = newest.groups()
    if tag is None:
        if date != "unreleased":
            raise NotReady(
                f"CHANGELOG.md begins with {section} ({date}), but this commit has no tag: tag it v{section}, "
                "or begin the next section, '## VERSION (unreleased)'"
            )
        return f"{version}: no tag here, so no release; the changelog's next is {section}"
    if version != tag.removeprefix("v"):
        raise NotReady(f"the tag is {tag}, the version that was built {version}: tag it v{version}, or build again")
    if section != version or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise NotReady(f"CHANGELOG.md begins with {section} ({date}): it must begin with '## {version} (YYYY-MM-DD)'")
    return f"{version}: of tag, distributions and changelog"


def announced(client: str, changelog: str) -> str:
    """The version that the client tells brokers, which is written in it. Raises NotReady if it is not the next one."""
    told, newest = ANNOUNCED.search(client), VERSION.search(changelog)
    if told is None or newest is None or told[1] != newest[1]:
        next_version = newest[1] if newest else "VERSION"
        raise NotReady(
            f"the client tells brokers another version: write SOFTWARE_VERSION = {next_version!r} in {CLIENT}"
        )
    return f"tells brokers {told[1]}"


def installed_and_served(python: str, distribution: Path, version: str, place: Path) -> str:
    run(python, "-m", "venv", place)
    programs = place / "bin"
    run(programs / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", distribution)
    shown = run(programs / "oncelog", "--version")
    if f"version {version}, " not in shown:
        raise NotReady(f"{distribution.name} says {shown.strip()!r} where {version} was built")
    with serving(programs / "oncelog", place / "data") as bootstrap:
        program, at = programs / "oncelog", ("--bootstrap", bootstrap)
        run(program, "topic", "create", "release", *at)
        run(program, "record", "produce", "release", RECORD, "--transactional-id", "release", *at)
        read = run(program, "record", "consume", "release", "--exit", *at)
    if read.strip() != RECORD:
        raise NotReady(f"{distribution.name}, {python}: the record came back as {read!r}")
    interpreter = run(programs / "python", "--version").strip()
    shutil.rmtree(place)
    return f"{interpreter}, from the {'wheel' if distribution.suffix == '.whl' else 'source distribution'}"


@contextmanager
def serving(program: Path, data_dir: Path) -> Iterator[str]:
    command = [program, "serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            line = daemon.stdout.readline() if daemon.stdout else ""
            if not line.startswith(READY):
                raise NotReady(f"{program} did not start: {daemon.communicate(timeout=30)[1][-2000:]}")
            yield line.removeprefix(READY).strip()
        finally:
            daemon.terminate()


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise NotReady(f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def say(what: str, result: str) -> None:
    print(f"{what:<22}{result}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [sys.executable])
