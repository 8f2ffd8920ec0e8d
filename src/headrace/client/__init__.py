"""The Kafka client: asyncio inside, with a plain face and an async one. It works the same against Apache Kafka."""
