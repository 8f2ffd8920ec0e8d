"""Headrace's source and sink in Spark beside Spark's own Kafka connector, in one session."""
