"""The batch wire: Kafka's protocol where librdkafka has no API: raw batches, claims, topic ids."""
