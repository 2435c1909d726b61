"""The broker: an asyncio daemon that speaks Kafka's wire protocol and keeps Kafka's promises about transactions."""
