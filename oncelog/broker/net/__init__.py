"""Listeners and connections: bytes in, frames to dispatch, responses out in request order."""
