"""Hostile and broken clients, by the thousand: real requests, mutated, against the whole broker.

`requests` makes requests that a client could send, `frames` what no client should; `broker_in_memory` plays them to a
broker on virtual time, from a seed, and watches; `storm` plays them to the real daemon over many sockets. What was
found is in `found/`, one file each, and is played again by `test_found`.
"""
