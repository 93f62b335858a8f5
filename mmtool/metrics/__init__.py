"""Prometheus metrics of flows, read from Kafka in the background and served over HTTP."""
