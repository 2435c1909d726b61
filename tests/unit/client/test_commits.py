"""The order in which a consumer's commits reach the group, and that each callback gets the outcome."""

import asyncio
import logging
from collections.abc import Mapping
from typing import cast

import pytest

from oncelog.client.consuming.commits import Commits
from oncelog.client.consuming.positions import Positions
from oncelog.client.groups.membership import Membership
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import CommitFailed, KafkaError, RequestTimedOut
from oncelog.client.values.records import OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline

A, B = TopicPartition("topic", 0), TopicPartition("topic", 1)
Committed = Mapping[TopicPartition, OffsetAndMetadata]


def at(**offsets: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {{"a": A, "b": B}[name]: OffsetAndMetadata(offset) for name, offset in offsets.items()}


class Group:
    """A group that responds when the test lets it."""

    def __init__(self) -> None:
        self.received: list[Committed] = []
        self.answers: list[asyncio.Future[None]] = []

    async def commit(self, offsets: Committed, deadline: Deadline) -> None:
        self.received.append(dict(offsets))
        answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        await answer

    def answer(self, error: KafkaError | None = None) -> None:
        waiting = next(each for each in self.answers if not each.done())
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def group() -> Group:
    return Group()


@pytest.fixture
async def commits(group: Group) -> Commits:
    return Commits(cast(Membership, group), cast(Positions, None), ConsumerSettings(group_id="group"))


def deadline() -> Deadline:
    return Deadline.after(60_000)


async def test_a_commit_waits_for_those_that_were_asked_for_before(commits: Commits, group: Group) -> None:
    commits.commit_soon(at(a=1), None)
    second = asyncio.ensure_future(commits.commit(at(a=2), deadline()))
    await turns()
    commits.commit_soon(at(a=3), None)
    await turns()
    assert group.received == [at(a=1)]
    group.answer()
    await turns()
    assert group.received == [at(a=1), at(a=2)]
    group.answer()
    await second
    await turns()
    assert group.received == [at(a=1), at(a=2), at(a=3)]
    group.answer()
    await commits.finish(deadline())


async def test_commits_that_wait_are_sent_as_one_and_each_is_called_back(commits: Commits, group: Group) -> None:
    heard: list[tuple[Committed, KafkaError | None]] = []
    commits.commit_soon(at(a=1), lambda *outcome: heard.append(outcome))
    await turns()
    for offset in range(2, 100):
        commits.commit_soon(at(a=offset), None)
    commits.commit_soon(at(b=7), lambda *outcome: heard.append(outcome))
    await turns()
    failure = CommitFailed()
    group.answer(failure)
    await turns()
    assert group.received == [at(a=1), at(a=99, b=7)]
    group.answer()
    await turns()
    assert heard == [(at(a=1), failure), (at(b=7), None)]


async def test_a_commit_behind_one_without_a_response_ends_at_its_deadline(commits: Commits, group: Group) -> None:
    commits.commit_soon(at(a=1), None)
    await turns()
    with pytest.raises(RequestTimedOut, match="earlier commit"):
        await commits.commit(at(a=2), Deadline.after(0))
    group.answer()
    await turns()
    # It was not sent afterwards, and does not hold up the next one.
    commits.commit_soon(at(a=3), None)
    await turns()
    assert group.received == [at(a=1), at(a=3)]
    await commits.cancel()


async def test_a_callback_that_raises_is_logged_and_keeps_no_other_from_being_called(
    commits: Commits, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[tuple[Committed, KafkaError | None]] = []

    def broken(offsets: Committed, error: KafkaError | None) -> None:
        raise ZeroDivisionError

    commits.commit_soon(at(a=1), broken)
    commits.commit_soon(at(a=2), lambda *outcome: heard.append(outcome))
    await turns()
    group.answer()
    await commits.settle()
    assert heard == [(at(a=2), None)]
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("was_sent", [False, True])
async def test_a_commit_that_a_close_ends_calls_back_with_an_error(
    commits: Commits, group: Group, was_sent: bool
) -> None:
    heard: list[tuple[Committed, KafkaError | None]] = []
    for offset in (1, 2):
        commits.commit_soon(at(a=offset), lambda *outcome: heard.append(outcome))
        if was_sent:
            await turns()
    await commits.cancel()
    assert group.received == ([at(a=1)] if was_sent else [])
    assert [offsets for offsets, _ in heard] == [at(a=1), at(a=2)]
    assert all(isinstance(error, RequestTimedOut) for _, error in heard)


async def test_a_commit_that_on_revoke_asks_for_after_a_close_ran_out_of_time_for_those_before_is_sent(
    commits: Commits, group: Group
) -> None:
    commits.commit_soon(at(a=1), None)
    await turns()
    commits.commit_soon(at(a=2), None)
    await turns()
    await commits.cancel()
    commits.commit_soon(at(a=3), None)
    await turns()
    assert group.received == [at(a=1), at(a=3)]
    group.answer()
    await commits.settle()
