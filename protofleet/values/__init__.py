"""The vocabulary: prototypes, mixtures, weights, and sums of them that do not care about order."""
