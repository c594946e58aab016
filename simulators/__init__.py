"""The laboratory: data dealt out to simulated devices, rounds in memory through the real codec, and
benchmarks.
"""
