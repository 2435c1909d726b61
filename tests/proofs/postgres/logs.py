"""What brokers, clients and servers have said in a part: kept where it has gone wrong, also if nobody asked for it."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.proofs.nemesis import Say
from tests.proofs.postgres.verdict import Verdict
from tests.proofs.postgres.world import World


@dataclass
class Logs:
    directory: Path
    are_needed: bool = True

    def explain(self, world: World, verdicts: Mapping[str, Verdict]) -> None:
        """Add all that is wrong, by name, what the servers have said, and the records that the tables hold."""
        wrong = {kind: verdict.wrong for kind, verdict in verdicts.items()}
        (self.directory / "wrong.json").write_text(json.dumps(wrong, indent=2))
        for server in world.servers:
            if server.log.exists():
                shutil.copy(server.log, self.directory / f"{server.directory.name}.log")
        command = ("oncelog", "log", "export", world.server.dsn, str(self.directory / "records"))
        subprocess.run((sys.executable, "-m", *command, "--schema", world.name), stdout=subprocess.DEVNULL, check=False)


@contextmanager
def logs_of(name: str, wanted: Path | None, say: Say) -> Iterator[Logs]:
    """The logs of one part, in `wanted`; without it in a directory that stays unless all is found to be well."""
    if wanted is None:
        logs = Logs(Path(tempfile.mkdtemp(prefix=f"postgres-proof-{name}-")))
    else:
        logs = Logs(wanted / name)
        logs.directory.mkdir(parents=True)
    try:
        yield logs
    finally:
        if logs.are_needed:
            say(f"the logs are in {logs.directory}")
        elif wanted is None:
            shutil.rmtree(logs.directory)
