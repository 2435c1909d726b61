"""Certificates, tokens, and brokers and clients that need them."""
