"""Declarations of every message: one module an API, request and response, with version notes."""
