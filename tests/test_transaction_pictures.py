"""The pictures of transactions in docs/ are what the code says."""

import re

import pytest

from oncelog.broker.coordinator.transaction.states import VALID_PREVIOUS_STATES
from tools.update_concept_pictures import PICTURES
from tools.update_transaction_pictures import IMAGES, ROOT, states_svg


def test_the_diagram_of_states_is_drawn_from_the_table() -> None:
    assert (IMAGES / "transaction_states.svg").read_text() == states_svg(), (
        "python tools/update_transaction_pictures.py states"
    )


def test_the_diagram_has_each_legal_step_and_no_other() -> None:
    drawn = set(re.findall(r"<title>(\w+) to (\w+)</title>", states_svg()))
    legal = {
        (source.kafka_name, target.kafka_name)
        for target, sources in VALID_PREVIOUS_STATES.items()
        for source in sources
    }
    assert drawn == legal


def test_in_the_recorded_run_markers_lie_between_prepare_and_complete() -> None:
    words = re.findall(r">([\w ]+)</text>", (IMAGES / "transaction_timeline.svg").read_text())
    told = [word for word in words if word.endswith("marker") or word.startswith(("Prepare", "Complete"))]
    assert told == [
        *("PrepareCommit", "COMMIT marker", "COMMIT marker", "CompleteCommit"),
        *("PrepareAbort", "ABORT marker", "ABORT marker", "CompleteAbort"),
    ]


def test_the_page_shows_both() -> None:
    page = (ROOT / "docs" / "understand" / "transactions.md").read_text()
    assert "images/transaction_states.svg" in page
    assert "images/transaction_timeline.svg" in page


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_a_concept_is_what_its_script_draws_and_its_page_shows_it(name: str) -> None:
    assert (IMAGES / name).read_text() == PICTURES[name](), "PYTHONPATH=. python tools/update_concept_pictures.py"
    assert f"images/{name}" in (ROOT / "docs" / "understand" / "concepts.md").read_text()
