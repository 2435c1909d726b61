"""Shared by handlers of several APIs."""
