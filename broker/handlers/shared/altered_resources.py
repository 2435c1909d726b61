"""What AlterConfigs and IncrementalAlterConfigs have in common: each resource is decided and answered on its own.

Owns: the order of the answers, the refusal of a resource that is named twice, errors as answers. Does not own: what a
change is (the two handlers), and what may be changed (`broker.config.changes`).
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from oncelog.broker.completion import Completion
from oncelog.broker.slices import Sliced, all_done, counted
from oncelog.protocol.errors import ErrorCode, KafkaError


class Resource(Protocol):
    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


ResourceT = TypeVar("ResourceT", bound=Resource)
AnswerT = TypeVar("AnswerT", covariant=True)


class NewAnswer(Protocol[AnswerT]):
    """A response class of one resource."""

    def __call__(
        self, *, error_code: int, error_message: str | None, resource_type: int, resource_name: str
    ) -> AnswerT: ...


def alter_each(
    resources: Sequence[ResourceT], decide: Callable[[ResourceT], Completion[None]], new_answer: NewAnswer[AnswerT]
) -> Sliced[list[AnswerT]]:
    """An answer for each resource, once what `decide` has written for it is durable; its KafkaError is the answer."""
    named = yield from counted((resource.resource_type, resource.resource_name) for resource in resources)

    def answer(resource: ResourceT, code: ErrorCode, message: str | None) -> AnswerT:
        return new_answer(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    def alter(resource: ResourceT) -> Completion[AnswerT]:
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            written = decide(resource)
        except KafkaError as error:
            return Completion.of(answer(resource, error.code, str(error)))
        return written.map(lambda _: answer(resource, ErrorCode.NONE, None))

    return (yield from all_done(map(alter, resources), 16))
