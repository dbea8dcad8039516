"""The command that the fuzzers of files and states have in common."""

import argparse
import random
import warnings


def main(name, doc, run, changed, found):
    """Run for some seconds from a seed, and say how many were changed, and of how many something was found."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    runs, times = run(options.seconds, options.seed)
    print(f"{name} (seed {options.seed}): {runs} {changed}, {times} of them {found}")
