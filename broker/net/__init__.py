"""Listeners and connections: bytes in, frames to dispatch, replies out in request order."""
