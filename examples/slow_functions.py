"""A slow function: on threads where it waits, in processes where it computes in Python, on blocks where it is NumPy."""

import time

import numpy as np

import headrace as hr

COUNT = 160


def fetch(n):
    """Waits, as for a disk or a network: other threads can run meanwhile."""
    time.sleep(0.01)
    return n


def digits_of_a_root(n):
    """Computes in Python, which one thread does at a time: a process each is what helps."""
    number, steps = int(n) + 2, 0
    for _ in range(20_000):
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
        steps += number & 1
    return steps


def scaled(n):
    """Plain NumPy: headrace runs it on whole blocks, and nothing needs to be parallel."""
    return np.sqrt(n * 2.0) + 1


def rate(what, ds):
    """Elements a second from the first to the last, when processes have been started."""
    with iter(ds) as it:
        next(it)
        started, count = time.perf_counter(), 0
        for _ in it:
            count += 1
        seconds = time.perf_counter() - started
    print(f"{what:<42} {count / seconds:>12,.0f} elements/s")
    return count / seconds


def main():
    numbers = hr.Dataset.range(COUNT)
    rate("waiting, one by one", numbers.map(fetch))
    rate("waiting, 8 threads", numbers.map(fetch, num_parallel_calls=8))
    found = numbers.repeat(8).map(fetch, num_parallel_calls=hr.AUTOTUNE)
    with iter(found) as it:
        for _ in it:
            pass
    print(f"{'waiting, as many threads as AUTOTUNE finds':<42} {it.tuning()['chosen']['/map']:>12} threads")

    rate("Python, one by one", numbers.map(digits_of_a_root))
    rate("Python, 2 threads", numbers.map(digits_of_a_root, num_parallel_calls=2))
    rate("Python, 2 processes", numbers.map(digits_of_a_root, num_parallel_calls=2, mode="process"))

    million = hr.Dataset.range(1_000_000).map(scaled)
    rate("NumPy, on blocks", million)
    print(million.explain())


if __name__ == "__main__":
    main()
