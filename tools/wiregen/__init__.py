"""Definitions to Python: parse, resolve per version, plan runs of fixed fields, emit straight-line code."""
