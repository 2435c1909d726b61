"""How a Fetch reads: its session, who waits for which log, one partition."""
