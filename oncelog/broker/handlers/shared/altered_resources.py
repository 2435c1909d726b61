"""Shared by AlterConfigs and IncrementalAlterConfigs: each resource is decided separately and has its own result.

Owns: the order of the results, the rejection of a resource that is named twice, errors as results. Does not own: what a
change is (the two handlers), and what may be changed (`broker.config.changes`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, all_done, count_each
from oncelog.protocol.errors import ErrorCode, KafkaError


class Resource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


ResourceT = TypeVar("ResourceT", bound=Resource)
AnswerT = TypeVar("AnswerT", covariant=True)


class NewAnswer(Protocol[AnswerT]):
    """Makes the response part of one resource."""

    def __call__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> AnswerT: ...


def alter_each(
    resources: Sequence[ResourceT], decide: Callable[[ResourceT], Completion[None]], new_answer: NewAnswer[AnswerT]
) -> Sliced[list[AnswerT]]:
    """Return a result for each resource, once what `decide` has written for it is durable; its KafkaError becomes the
    result."""
    named = yield from count_each(map(attrgetter("resource_type", "resource_name"), resources))
    return (yield from all_done(map(partial(_alter, named, decide, new_answer), resources), 16))


def _alter(
    named: Counter[Any],
    decide: Callable[[ResourceT], Completion[None]],
    new_answer: NewAnswer[AnswerT],
    resource: ResourceT,
) -> Completion[AnswerT]:
    try:
        if named[resource.resource_type, resource.resource_name] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        written = decide(resource)
    except KafkaError as error:
        return Completion.of(_answer(new_answer, resource, error.code, str(error)))
    return written.map(
        lambda _: _answer(new_answer, resource, ErrorCode.NONE, None),
        lambda error: _answer(new_answer, resource, error.code, str(error)),
    )


def _answer(new_answer: NewAnswer[AnswerT], resource: Resource, code: ErrorCode, message: str | None) -> AnswerT:
    return new_answer(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
