"""The lab: real Kafka clusters on this machine, for tests, the demo and the benchmark."""
