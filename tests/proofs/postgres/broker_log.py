"""What a broker has said in its log, which is a line of JSON for each event."""

from tests.support.processes.daemon import Daemon


def last_words(broker: Daemon) -> str:
    """Why it ended, as its log says."""
    for event in reversed(broker.events()):
        if event.get("level") in ("error", "critical"):
            return str(event.get("error", event["event"]))
    return ""


def last_event(broker: Daemon, name: str) -> str:
    """The message of the newest event of this name; "" if there is none."""
    said = broker.events(name)
    return str(said[-1]["message"]) if said else ""
