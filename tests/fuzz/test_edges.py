"""No number at the edge of its type, once stored, keeps the broker from answering: before a stop, after it, or later.

Each name of the table is what stores the numbers; the fast suite tries a sample of them, `make test-all` the others.
"""

import pytest

from tests.fuzz.edge_scene import Scene
from tests.fuzz.edges import Story, stories

STORIES = stories()
TEN_MINUTES_MS = 600_000


@pytest.mark.sampled(8)
@pytest.mark.parametrize("stored", STORIES.values(), ids=list(STORIES))
def test_every_api_answers_whatever_numbers_are_stored(stored: tuple[Story, ...]) -> None:
    scene = Scene.start()
    for story in stored:
        scene.begin()
        for step in story.steps:
            scene.ask(step)
            if step.path:  # what comes after may replace the number
                scene.read()
        scene.read()
    scene.let_pass(TEN_MINUTES_MS)
    scene.stop()
    for number in range(1, len(stored) + 1):
        scene.number = number
        scene.read()
    scene.let_pass(TEN_MINUTES_MS)
