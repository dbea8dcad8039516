"""Rows of Parquet files, in batches of one user each: group_by_window."""

import tempfile
from pathlib import Path

import numpy as np

import headrace as hr


def write_orders(folder):
    """1,000 orders of 7 users, with as many items each as they like."""
    rng = np.random.default_rng(0)
    orders = hr.Dataset.from_tensor_slices(
        {
            "user": rng.integers(0, 7, 1000),
            "price": rng.gamma(2, 10, 1000),
            "items": hr.Ragged.from_rows([rng.integers(0, 50, n) for n in rng.integers(1, 5, 1000)]),
        }
    )
    orders.write_parquet(folder / "orders", shards=2)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_orders(folder)

        orders = hr.ParquetDataset(str(folder / "orders-*.parquet"), columns=["user", "price"])
        print(orders)
        groups = orders.group_by_window(
            key_func=lambda order: order["user"], reduce_func=lambda user, window: window.batch(16), window_size=16
        )
        spent = {}
        for batch in groups:
            assert len(set(batch["user"])) == 1  # every batch is one user's
            user = int(batch["user"][0])
            spent[user] = spent.get(user, 0) + batch["price"].sum()
        print({user: round(float(total)) for user, total in sorted(spent.items())})

        # Rows of different lengths: in ragged batches, or filled up.
        items = hr.ParquetDataset(str(folder / "orders-*.parquet"), columns=["items"]).map(lambda order: order["items"])
        print(next(iter(items.ragged_batch(4))))
        print(next(iter(items.padded_batch(4, padding_values=-1))))


if __name__ == "__main__":
    main()
