"""What more machines than one cost and gain."""
