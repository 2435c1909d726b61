"""Conversations with a broker, question by question: what is asked, and what of each answer counts.

A question is an API's name, a version and fields, and a shape of its answer (`tests.clients.asking`). A generator of
questions is a part; a conversation is its parts, on a broker that a set-up has made ready. A part keeps an answer only
where the next question needs it.

The same questions go to our broker in memory and to Apache Kafka; what Kafka answered is in `answers` beside this
folder. Does not own: who is asked and when (`recordings`), how answers are kept (`recording`).
"""
