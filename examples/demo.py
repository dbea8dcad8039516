"""What is special, in a minute: speed beside a plain loop, the plan, a named error, a kill and an exact resume."""

import json
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

import headrace as hr

FEATURES = {"image": hr.io.FixedLenFeature([], bytes), "label": hr.io.FixedLenFeature([], np.int64)}
STEPS, KILLED_AT = 400, 150


def title(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def compare_speed():
    title("1. Shuffle, scale and batch 40,000 images of 28×28: a plain loop, and headrace")
    images = np.random.default_rng(0).integers(0, 255, (40_000, 28, 28), np.uint8)
    labels = np.arange(40_000) % 10

    def by_hand():
        order = np.random.default_rng(1).permutation(len(images))
        for start in range(0, len(order), 128):
            rows = [(images[i].astype(np.float32) / 255, labels[i]) for i in order[start : start + 128]]
            yield np.stack([x for x, _ in rows]), np.array([y for _, y in rows])

    dataset = hr.Dataset.from_tensor_slices((images, labels)).shuffle(40_000, seed=1)
    dataset = dataset.map(lambda x, y: (x.astype(np.float32) / 255, y)).batch(128)
    rates = {}
    for name, epoch in (("loop", by_hand), ("headrace", lambda: dataset)):
        started = time.perf_counter()
        rows = sum(len(y) for _, y in epoch())
        rates[name] = rows / (time.perf_counter() - started)
        print(f"   {name:<10}{rates[name]:>12,.0f} images/s")
    print(f"   {rates['headrace'] / rates['loop']:.1f} times as fast, and the lambda was written for one image")


def parse(record):
    example = hr.io.parse_single_example(record, FEATURES)
    return hr.io.decode_raw(example["image"], np.uint8, fixed_length=64).astype(np.float32) / 16, example["label"]


def digits(folder):
    """What the training reads: shuffled and jittered anew in every epoch."""
    files = hr.Dataset.list_files(str(folder / "digits-*.tfrecord"), shuffle=False)
    rows = hr.TFRecordDataset(files).map(parse).shuffle(500, seed=0)
    jittered = rows.random_map(lambda x, y, rng: (x + rng.normal(0, 0.1, 64).astype(np.float32), y), seed=0)
    return jittered.batch(32).prefetch(hr.AUTOTUNE)


def show_plan(folder):
    title("2. print(ds.explain()): what the pipeline is, and how each function runs")
    print(digits(folder).explain())


def show_error(folder):
    title("3. One byte of a file is flipped: the error says where, and the pass goes on behind it")
    path = sorted(folder.glob("digits-*.tfrecord"))[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = folder / "damaged.tfrecord"
    damaged.write_bytes(data)
    try:
        list(hr.TFRecordDataset(damaged).map(parse))
    except hr.ElementError as error:
        print(error)
    rest = hr.TFRecordDataset(damaged, on_error="skip").map(parse)
    print(f'   on_error="skip" reads the other {len(list(rest))} records; hr.Quarantine("bad") keeps the bad ones')


def train(folder, quiet):
    """Train for STEPS steps, a checkpoint after each; begin where the last one stands, if there is one."""
    checkpoint = folder / "checkpoint"
    model, done, state = SGDClassifier(loss="log_loss", random_state=0), 0, None
    if checkpoint.exists():
        model, done, state = pickle.loads(checkpoint.read_bytes())
    dataset = digits(folder)
    while done < STEPS:
        it = dataset.iterator(state=state)
        for images, labels in it:
            model.partial_fit(images, labels, classes=range(10))
            done += 1
            new = checkpoint.with_suffix(".new")
            new.write_bytes(pickle.dumps((model, done, it.state())))
            new.replace(checkpoint)  # whole or not at all
            if not quiet:
                print(done, flush=True)
            if done == STEPS:
                break
        state = None
    return model


def kill_and_resume(folder):
    title(f"4. Training is killed after {KILLED_AT} of {STEPS} steps, in the middle of an epoch, and started again")
    command = [sys.executable, __file__, "train", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        for line in child.stdout:
            if int(line) == KILLED_AT:
                child.send_signal(signal.SIGKILL)
                break
    _, done, state = pickle.loads((folder / "checkpoint").read_bytes())
    print(f"   killed; the checkpoint of step {done} holds {len(json.dumps(state))} bytes of the data's state")
    subprocess.run([*command, "quiet"], check=True)
    resumed, _, _ = pickle.loads((folder / "checkpoint").read_bytes())
    (folder / "checkpoint").unlink()
    whole = train(folder, quiet=True)
    same = whole.coef_.tobytes() == resumed.coef_.tobytes()
    print(f"   the model is the same to the last bit as one that was never killed: {same}")


def main():
    print(f"headrace {hr.__version__}")
    compare_speed()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = load_digits()
        rows = hr.Dataset.from_tensor_slices((found.data.astype(np.uint8), found.target))
        rows.map(lambda x, y: {"image": x.tobytes(), "label": y}).write_tfrecord(folder / "digits", shards=4)
        show_plan(folder)
        show_error(folder)
        kill_and_resume(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        train(Path(sys.argv[2]), quiet="quiet" in sys.argv)
    else:
        main()
