"""Files of settings are read as `java.util.Properties` reads them: what it made of 2,000 of them is written down.

The texts are drawn from what means something in the syntax. `ONCELOG_RECORD=1` and the test marked `kafka` write
`answers/properties.jsonl.gz` again.
"""

import gzip
import json
import os
from base64 import b64encode, urlsafe_b64decode
from pathlib import Path
from random import Random

import pytest

from oncelog.broker.config.properties import PropertiesError, parse_properties
from tests.support.kafka.java import ask_kafka

RECORDED = Path(__file__).parent / "answers" / "properties.jsonl.gz"
_PROGRAM = Path(__file__).with_name("KafkaProperties.java")
_COUNT = 2_000
_PARTS = (
    *("a", "b", "key", "two words", "\u00e9", "\u20ac", "\U0001f600", "=", ":", " ", "\t", "\f", "#", "!"),
    *("\\", "\\\\", "\\ ", "\\=", "\\:", "\\#", "\\t", "\\n", "\\q", "\\U0041", "\\\\u0041"),
    *("\\u0041", "\\u003d", "\\u0020", "\\u00e9", "\\uD83D\\uDE00", "\\u000A"),
    *("\n", "\n", "\r", "\r\n", "\\\n", "\\\r\n", "\n\n", "\n#", "\x0b", "\x85", "\u2028", "\x00"),
)
_HALF_AND_WRONG = ("\\uD83D", "\\uDE00", "\\u", "\\u12", "\\u004g", "\\u+041", "\\u\u0661\u0662\u0663\u0664", "\\u 041")
_PARTS_OF_FEW = (*_PARTS, *_HALF_AND_WRONG)
Pairs = dict[str, str]


def texts() -> list[str]:
    random = Random(1)
    drawn = [random.choices(_PARTS, k=random.randrange(1, 16)) for _ in range(_COUNT - 400)]
    drawn += [random.choices(_PARTS_OF_FEW, k=random.randrange(1, 6)) for _ in range(400)]
    return list(map("".join, drawn))


def asked() -> list[Pairs | None]:
    """The pairs that Java reads in each text; None where it refuses the text."""
    answers = ask_kafka(_PROGRAM, [b64encode(text.encode()).decode() for text in texts()])
    return [None if line == "refused" else dict(map(_pair, line.split()[1:])) for line in answers]


def _pair(text: str) -> tuple[str, str]:
    key, value = (urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("utf-16-be") for part in text.split("="))
    return key, value


def _read(text: str) -> Pairs | None:
    try:
        return parse_properties(text)
    except PropertiesError:
        return None


def test_every_text_means_what_it_means_to_java() -> None:
    known = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]
    assert len(known) == _COUNT
    different = [(text, _read(text), java) for text, java in zip(texts(), known, strict=True) if _read(text) != java]
    assert different == []


@pytest.mark.kafka
def test_java_still_reads_what_was_written_down() -> None:
    found = "".join(f"{json.dumps(pairs)}\n" for pairs in asked()).encode()
    if os.environ.get("ONCELOG_RECORD"):
        RECORDED.write_bytes(gzip.compress(found, mtime=0))
    assert gzip.decompress(RECORDED.read_bytes()) == found
