"""What a broker has said in its log, which is a line of JSON for each event."""

import json
from pathlib import Path


def last_words(stderr: Path) -> str:
    """Why it ended, as its log says."""
    for event in reversed(_events(stderr)):
        if event.get("level") in ("error", "critical"):
            return event.get("error", event["event"])
    return ""


def last_event(stderr: Path, name: str) -> str:
    """What it said with this event; "" if it never did."""
    return next((event["message"] for event in reversed(_events(stderr)) if event["event"] == name), "")


def _events(stderr: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in stderr.read_text(errors="replace").splitlines() if line.startswith("{")]
