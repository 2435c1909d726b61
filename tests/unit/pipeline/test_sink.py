"""The sink's decision: what the marker says about a batch, and what must never be skipped silently."""

import json
from pathlib import Path

import pytest

from oncelog.client import OffsetAndMetadata
from oncelog.pipeline.sink import MarkerMismatch, decide, fingerprint_of, sink_id_of


def marker(next_batch: int, fingerprint: str = "same") -> OffsetAndMetadata:
    return OffsetAndMetadata(next_batch, json.dumps({"fingerprint": fingerprint}))


def test_the_batch_that_the_marker_waits_for_is_published() -> None:
    assert decide(0, "same", None)
    assert decide(5, "same", marker(5))


def test_the_batch_before_it_is_skipped_if_it_is_the_same_one() -> None:
    assert not decide(4, "same", marker(5))


def test_the_same_number_with_other_offsets_is_refused() -> None:
    with pytest.raises(MarkerMismatch, match="other offsets"):
        decide(4, "other", marker(5))


def test_an_old_copy_of_the_checkpoint_is_refused() -> None:
    with pytest.raises(MarkerMismatch, match="old copy"):
        decide(2, "same", marker(5))


@pytest.mark.parametrize("known", [None, marker(5)])
def test_a_lost_marker_is_refused(known: OffsetAndMetadata | None) -> None:
    with pytest.raises(MarkerMismatch, match="expired or was deleted"):
        decide(7, "same", known)


def test_identity_and_fingerprint_come_from_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "query"}))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"0":10}')
    assert sink_id_of(tmp_path) == "spark-sink-query"
    before = fingerprint_of(tmp_path, 3)
    (tmp_path / "offsets" / "3").write_text('v1\n{"0":11}')
    assert fingerprint_of(tmp_path, 3) != before
