"""Draw the pictures of docs/observe.md: the report of a real pass in Chromium, light, dark and on a phone.

python tools/make_report_pictures.py          writes docs/observe-report*.png; needs playwright and chromium
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

import headrace as hr

DOCS = Path(__file__).parents[1] / "docs"
SCRIPT = "train.py"
FILES, RECORDS, STEP_SECONDS = 6, 1500, 0.004
VIEWS = {
    "": {"viewport": {"width": 1100, "height": 1330}},
    "-dark": {"viewport": {"width": 1100, "height": 1330}, "color_scheme": "dark"},
    "-phone": {"viewport": {"width": 390, "height": 1330}},
}
TRAIN = """
import numpy as np
import headrace as hr

def parse(record):
    image = np.frombuffer(record, np.uint8)[:3600].reshape(60, 60)
    for _ in range(12):
        image = np.sqrt(image + float(len(str(record[:10]))))
    return image

def augment(image, rng):
    return image[::-1] if rng.random() < 0.5 else image

def make(files):
    return (
        hr.TFRecordDataset(files)
        .shuffle(500, seed=1)
        .map(parse, num_parallel_calls=2, mode="eager")
        .random_map(augment, seed=3)
        .batch(32)
        .prefetch(8)
    )
"""


def stored(folder: Path) -> list[str]:
    """Files of records to read."""
    random = np.random.default_rng(0)
    names = []
    for number in range(FILES):
        path = folder / f"train-{number}.tfrecord"
        with hr.io.TFRecordWriter(path) as writer:
            for _ in range(RECORDS):
                writer.write(random.bytes(4000))
        names.append(str(path))
    return names


def write_report(folder: Path) -> Path:
    """Train for some seconds and write the page."""
    there: dict[str, object] = {"__name__": "train"}
    exec(compile(TRAIN, SCRIPT, "exec"), there)
    it = iter(there["make"](stored(folder)))  # type: ignore[operator]
    it.record(0.05, calls=True)
    for _ in it:
        time.sleep(STEP_SECONDS)  # the trainer's step
    it.report(folder / "run.html")
    return folder / "run.html"


def main() -> None:
    """Write the pictures; the exit code is 1 if the browser reported an error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    chosen = parser.parse_args()
    errors: list[str] = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        page = write_report(Path(name))
        browser = playwright.chromium.launch(executable_path=chosen.chromium, args=["--no-sandbox"])
        for suffix, about in VIEWS.items():
            tab = browser.new_context(**about).new_page()
            tab.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            tab.on("pageerror", lambda error: errors.append(str(error)))
            tab.goto(page.as_uri())
            tab.locator(".node").nth(3).click()
            tab.screenshot(path=chosen.out / f"observe-report{suffix}.png")
        browser.close()
    print("\n".join(errors) or "no error in the console")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
