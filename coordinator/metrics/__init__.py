"""What a monitoring system is told of a coordinator, by whoever stands beside it."""
