"""Processes and what is between them: daemons, programs, their logs, networks and proxies that fail."""
