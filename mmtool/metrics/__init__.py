"""Prometheus metrics of flows, asked of Kafka in the background and served over HTTP."""
