"""Operators with state of our own, on Arrow tables: joins with tables, folds, sliding windows. No Spark in here."""
