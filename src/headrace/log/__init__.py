"""One partition is one `Log` on disk, in Kafka's own file format. Files, synchronously; no loop, no sockets."""
