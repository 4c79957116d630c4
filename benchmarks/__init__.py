"""Benchmarks: ratios and medians, each product figure beside its peer in one run. `python -m benchmarks`."""
