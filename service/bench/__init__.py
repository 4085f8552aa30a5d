"""Reproducible benchmarks: JSON on standard output, each beside its raw floor of the same run."""
