"""How a Fetch reads: its session, waiting for logs, one partition."""
