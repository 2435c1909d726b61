"""Prints what pyproject.toml depends on, one requirement a line: of the package, or of one of its extras.

    python3 requirements.py [EXTRA]

Owns: extras that name others (`oncelog[spark]`), which pip resolves only together with the package itself.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


def requirements(project: dict[str, object], extra: str) -> Iterator[str]:
    extras = project["optional-dependencies"]
    for each in extras[extra]:  # type: ignore[index]
        own = re.fullmatch(r"oncelog\[(.*)\]", each)
        if own is None:
            yield each
        else:
            for name in own[1].split(","):
                yield from requirements(project, name)


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    found = project["dependencies"] if len(sys.argv) == 1 else requirements(project, sys.argv[1])
    print(*found, sep="\n")


if __name__ == "__main__":
    main()
