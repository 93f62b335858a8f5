"""The Kafka layer: clients, protocol, groups, stored state; the only importer of confluent_kafka and aiokafka."""
