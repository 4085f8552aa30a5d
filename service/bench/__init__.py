"""Reproducible benchmarks: JSON on standard output, each beside its raw baseline of the same
run."""
