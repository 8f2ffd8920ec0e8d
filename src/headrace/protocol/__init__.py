"""Bytes and values: messages, frames, record batches, columns, compression, errors. It only computes."""
