"""What `benchmarks.broker` is made of: two brokers, a load generator, and what is measured with them."""
