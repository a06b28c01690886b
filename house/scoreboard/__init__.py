"""What AIR costs beside others, from the benchmarks of the packages: one JSON file a ground, one page, one document."""
