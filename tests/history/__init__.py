"""Histories: requests and responses of clients, and what was seen of the broker; and the auditor that judges them."""
