"""`oncelog-kafka-script NAME ...`, or a link of that name to it; `oncelog-kafka-script link /` makes the links.

Owns: from a name to its function, and from an error to a line and exit code 1.
"""

import sys
from importlib import import_module
from pathlib import Path

from oncelog.tools.kafka_scripts.arguments import Run, Wrong, fail, out, parsed
from oncelog.tools.kafka_scripts.table import SCRIPTS

_DIRECTORIES = (("opt/kafka/bin", ".sh"), ("opt/bitnami/kafka/bin", ".sh"), ("usr/bin", ""))
"""The directories in which apache/kafka, bitnami/kafka and confluentinc/cp-kafka have the scripts, and their suffix."""


def main(words: list[str] | None = None) -> int:
    """Run one script and return its exit code; `words` begin with its name, or else what this program was called by."""
    words = sys.argv if words is None else words
    name = Path(words[0]).name.removesuffix(".sh")
    if name not in SCRIPTS:  # called by its own name
        if words[1:2] == ["link"]:
            link(Path(words[2]), Path(words[0]))
            return 0
        if words is sys.argv and len(words) > 1:
            return main(words[1:])
        fail(f"{name} is not one of the scripts here: {', '.join(SCRIPTS)}")
    script = SCRIPTS[name]
    try:
        options = parsed(name, script, words[1:])
        if "version" in options:
            from importlib.metadata import version

            out(f"4.3.0 (oncelog {version('oncelog')})")
            return 0
        if "help" in options:
            out(*(f"--{each}" for each in sorted(script.flags | script.values)))
            return 0
        module, _, function = script.run.partition(":")
        run: Run = getattr(import_module(module), function)
        return run(options)
    except Wrong as error:
        fail(str(error))
    except KeyboardInterrupt:
        return 130


def link(root: Path, program: Path) -> None:
    """Link every name to `program` where the images have it below `root`; a program that is there is left alone."""
    for directory, suffix in _DIRECTORIES:
        (root / directory).mkdir(parents=True, exist_ok=True)
        for name in (each for each in SCRIPTS if each.startswith("kafka-") or not suffix):
            path = root / directory / f"{name}{suffix}"
            if not path.exists():
                path.symlink_to(program)


if __name__ == "__main__":
    sys.exit(main())
