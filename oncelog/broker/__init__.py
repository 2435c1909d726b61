"""The broker: an asyncio daemon that implements Kafka's protocol and Kafka's transactional guarantees."""
