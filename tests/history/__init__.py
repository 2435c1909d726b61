"""Histories: what clients asked and were told, and what was seen of the broker; and the auditor that judges them."""
