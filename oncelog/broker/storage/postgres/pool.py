"""Several connections for statements of one kind, in any order: one that takes long, or is silent, holds up no other.

Owns: which connection takes the next one. Does not own: the connections' errors (`session`).
Invariant: a statement that comes after the answer to the one before goes over the same connection, which may have a
lock.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from oncelog.broker.storage.postgres.session import Ask, Session
from oncelog.broker.turns.completion import Completion

T = TypeVar("T")


class Pool:
    def __init__(self, sessions: Sequence[Session]) -> None:
        self.sessions = sessions
        self._free = deque(sessions)
        self._newest: Session | None = None
        """The session that took a statement last."""
        self._waiting: deque[tuple[Ask[Any], Completion[Any]]] = deque()

    def run(self, ask: Ask[T]) -> Completion[T]:
        """Run `Session.run` on the first session that is free."""
        answered: Completion[T] = Completion()
        self._waiting.append((ask, answered))
        self._send()
        return answered

    def _send(self) -> None:
        while self._free and self._waiting:
            session, (ask, answered) = self._free.popleft(), self._waiting.popleft()
            self._newest = session
            session.run(ask).then(partial(self._end, session, answered))

    def _end(self, session: Session, answered: Completion[Any], answer: Completion[Any]) -> None:
        if session is self._newest:
            self._free.appendleft(session)
        else:
            self._free.append(session)
        self._send()
        if answer.error is None:
            answered.complete(answer.result())
        else:
            answered.fail(answer.error)
