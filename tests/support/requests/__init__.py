"""Requests and messages: of every API, of any shape, hostile ones, and what they cost."""
