"""Groups, offsets and transactions, as pure state machines: decide, records, replay."""
