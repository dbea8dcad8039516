"""The tests of ds.to_keras() with other versions of Keras, each installed into a folder of its own.

python -m tests.adapters.keras_versions                  the three newest minor versions
python -m tests.adapters.keras_versions 3.12.0 3.13.2    these

The adapter takes one class of Keras that is not public, and reads the arguments of `fit` from its frame: whatever moves
there fails here.
"""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

NEWEST = ("3.15.1", "3.14.1", "3.13.2")
BACKENDS = {"torch": [], "jax": [], "tensorflow": ["-k", "state or adapts"]}
"""What is selected on each: TensorFlow is slow to import and to compile."""
TESTS = "tests/adapters/inside_keras.py"
ROOT = Path(__file__).parents[2]


def run(version, folder):
    """Whether the tests pass with a version, on each backend."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*install, f"keras=={version}"], check=True)
    check = f"import sys, keras; sys.exit(keras.__version__ != {version!r})"
    report = folder / "report.xml"
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}", TESTS]
    passed = True
    for backend, selected in BACKENDS.items():
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "KERAS_BACKEND": backend, "HEADRACE_INSIDE": "1"}
        subprocess.run([sys.executable, "-c", check], env=environment, check=True)
        command = [*tests, *selected]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        result = ET.parse(report).getroot().find("testsuite").attrib
        counts = ", ".join(f"{key} {result[key]}" for key in ("tests", "failures", "errors", "skipped"))
        print(f"Keras {version} on {backend}: {counts}", flush=True)
        if done.returncode:
            print(done.stdout, done.stderr)
            passed = False
    return passed


def main():
    with tempfile.TemporaryDirectory() as folder:
        passed = [run(version, Path(folder) / version) for version in sys.argv[1:] or NEWEST]
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
