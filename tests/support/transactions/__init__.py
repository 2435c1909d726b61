"""Transactional ids in every state, what is asked about them, and the tables of what is answered."""
