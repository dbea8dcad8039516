"""How a plan runs: streams of blocks, and all there is of threads, budgets and measurements."""
