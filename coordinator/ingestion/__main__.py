"""One ingester, for a coordinator that started it."""

from coordinator.ingestion.ingester import main

main()
