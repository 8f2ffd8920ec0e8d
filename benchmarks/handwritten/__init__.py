"""The baseline of benchmarks/codec.py: codecs that were written by hand for exactly one version of one message.

They are what a good engineer writes who knows the version and nothing else: one `struct` per run of fixed fields, the
usual row in one go, one-byte varints in place, straight loops, plain tuples. They are no cheat either: no length is
believed before it is checked against `end`, every byte must be used, tags must ascend, strings must be UTF-8, and
records stay a slice of the frame. They lack what only a generator can afford: other versions, names, unknown tags that
are kept, and an error that tells which field was wrong.

Messages come with their headers. decode(buffer, view, position, end) -> (header, body); encode(header, body) -> parts.
"""
