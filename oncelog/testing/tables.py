"""What a broker for tests keeps in PostgreSQL: a schema of its own, which outlives a crash.

Owns: the name of the schema, and its end. Does not own: what is in it (`broker.storage.postgres`).
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4


class Tables:
    def __init__(self, dsn: str, schema: str | None, directory: Path) -> None:
        """Without a `schema` it is a new one. `directory` is for what a process says."""
        self.dsn = dsn
        self.schema = schema or f"oncelog_{uuid4().hex}"
        self._is_kept = schema is not None
        self.directory = directory

    @property
    def settings(self) -> Mapping[str, str]:
        """Return the broker's settings."""
        return {
            "oncelog.storage": "postgres",
            "oncelog.postgres.dsn": self.dsn,
            "oncelog.postgres.schema": self.schema,
        }

    def drop(self) -> None:
        """Delete a new schema with all that is in it."""
        if not self._is_kept:
            asyncio.run(self._drop())

    async def _drop(self) -> None:
        import asyncpg  # a broker has been here

        connection = await asyncpg.connect(self.dsn)
        try:
            await connection.execute(f'drop schema if exists "{self.schema}" cascade')
        finally:
            await connection.close()
