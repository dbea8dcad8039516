"""A CSV file to a scikit-learn model: columns become arrays, batches train the model."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from sklearn.linear_model import SGDClassifier

import headrace as hr

SPECIES = {"setosa": 0, "versicolor": 1, "virginica": 2}


def write_table(path):
    """Iris as people find it: a header line, four numbers and a name on each line."""
    iris = load_iris()
    lines = ["sepal_length,sepal_width,petal_length,petal_width,species"]
    for numbers, label in zip(iris.data, iris.target, strict=True):
        lines.append(",".join([*map(str, numbers), iris.target_names[label]]))
    path.write_text("\n".join(lines) + "\n")


def to_arrays(features, species):
    x = np.stack([features[name] for name in ("sepal_length", "sepal_width", "petal_length", "petal_width")])
    return x, SPECIES[species]


def main():
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "iris.csv")
        rows = hr.Dataset.from_csv(Path(folder) / "iris.csv", label_name="species")
        print(rows)
        print(next(iter(rows)))

        # The file is sorted by species. One fixed order is cut in two; the training part gets another one every epoch.
        mixed = rows.map(to_arrays).shuffle(150, seed=0, reshuffle_each_iteration=False)
        test = mixed.take(30).batch(30).get_single_element()
        train = mixed.skip(30).shuffle(120, seed=1).batch(16)

        model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.02, random_state=0)
        for _ in range(40):
            for x, y in train:
                model.partial_fit(x, y, classes=[0, 1, 2])
        print(f"test accuracy {model.score(*test):.3f}")


if __name__ == "__main__":
    main()
