"""The clients for programs without an event loop, which `oncelog.sync` re-exports.

This room owns the thread that runs a loop for them, and classes with the same methods, which wait for the asynchronous
ones. It decides nothing: what a call does is decided in the client that it wraps.
"""
