"""Speed beside others: contenders in one run, ratios printed."""
