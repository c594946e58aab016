"""Speed and paper benchmarks: each prints a table of ratios measured side by side in one run."""
