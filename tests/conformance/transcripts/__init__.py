"""Conversations with a broker, question by question: what is asked, and what of each answer counts.

The same questions go to our broker in memory and to Apache Kafka; what Kafka answered is in `answers` beside this
folder. Does not own: who is asked and when (`recordings`), how answers are kept (`recording`).
"""
