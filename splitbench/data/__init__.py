"""One file per data set; partitions over clients."""
