"""Kafka's protocol where librdkafka does not reach: batches as they are, claims, topic ids."""
