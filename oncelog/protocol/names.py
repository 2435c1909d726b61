"""What an unknown name may have meant: the nearest of those that exist, or a setting of one of Kafka's clients.

Owns: the distance, and which settings only clients have, as Apache Kafka 4.3's ProducerConfig, ConsumerConfig and
AdminClientConfig do. Does not own: who knows which names, and the sentence around the hint.
Invariant: a hint is a slip of the keys away, or a last word; what is merely alike is no hint, but a wrong trail.
"""

import re
from collections.abc import Iterable

_SEPARATORS = re.compile(r"[._\- ]")
_SHORT = 5
"""The longest name for which only one slip is a hint, beyond it two."""
_LEAST_BEGINNING = 6
"""The least letters of a name that is a hint to one with a further word."""

_OF_PRODUCERS = """
    acks batch.size buffer.memory delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys transaction.timeout.ms
    transactional.id value.serializer
"""
_OF_CONSUMERS = """
    allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack enable.auto.commit
    exclude.internal.topics fetch.max.wait.ms fetch.min.bytes group.id group.instance.id group.protocol
    group.remote.assignor heartbeat.interval.ms isolation.level key.deserializer max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records partition.assignment.strategy session.timeout.ms share.acknowledgement.mode
    share.acquire.mode value.deserializer
"""
_OF_CLIENTS = """
    bootstrap.controllers bootstrap.servers client.dns.lookup client.id default.api.timeout.ms enable.metrics.push
    interceptor.classes metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms retries retry.backoff.max.ms retry.backoff.ms
    security.protocol send.buffer.bytes
"""
_OWNERS = (("a producer", _OF_PRODUCERS), ("a consumer", _OF_CONSUMERS), ("a client", _OF_CLIENTS))


def owner_of(name: str) -> str:
    """Return "a producer", "a consumer" or "a client", if only those have a setting of this name, spelt with dots or
    with underscores; else an empty text."""
    wanted = name.replace("_", ".")
    return next((owner for owner, names in _OWNERS if wanted in names.split()), "")


def nearest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Return at most `count` of the known names that this one may have meant, the nearest first; capitals and what
    stands between the words do not count."""
    wanted = _letters(name)
    limit = 1 if len(wanted) <= _SHORT else 2
    found = []
    for each in known:
        letters = _letters(each)
        if abs(len(letters) - len(wanted)) <= limit and (slips := _slips(wanted, letters)) <= limit:
            found.append((slips, each))
        elif len(wanted) >= _LEAST_BEGINNING and len(_words(each[len(name) :])) == 2 and each.startswith(name):
            found.append((limit + 1, each))
    return [each for _, each in sorted(found)[:count]]


def _letters(name: str) -> str:
    return _SEPARATORS.sub("", name).lower()


def _words(text: str) -> list[str]:
    return _SEPARATORS.split(text)


def _slips(one: str, other: str) -> int:
    """Return how many letters are missing, extra, wrong, or in the order of their neighbours (optimal string
    alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, 1):
        above, row = row, [index]
        for column, wanted in enumerate(other, 1):
            cost = min(above[column] + 1, row[column - 1] + 1, above[column - 1] + (letter != wanted))
            if index > 1 and column > 1 and letter == other[column - 2] and one[index - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            row.append(cost)
        before = above
    return row[-1]
