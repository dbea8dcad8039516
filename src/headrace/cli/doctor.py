"""`headrace doctor`: everything about an installation that a bug report needs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
from pathlib import Path

import headrace
from headrace import _native
from headrace.cli.output import Json, bytes_text, say, show_json
from headrace.core.types import JsonObject

CREDENTIALS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN", "~/.aws/credentials", "~/.aws/config"),
    "gcs": ("GOOGLE_APPLICATION_CREDENTIALS", "~/.config/gcloud/application_default_credentials.json"),
    "azure": ("AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ACCOUNT_NAME", "AZURE_CLIENT_ID"),
    "huggingface": ("HF_TOKEN", "~/.cache/huggingface/token"),
}
"""Environment variables and files by store. Only whether they exist is reported, never what they contain."""

CPU_FLAGS = ("sse4_2", "pclmulqdq", "avx2", "avx512f", "avx512vl", "vpclmulqdq", "crc32", "pmull")
FRAMEWORKS = ("torch", "jax", "keras", "tensorflow", "tensorflow-cpu")


def doctor(as_json: Json = False) -> None:
    """Report versions, CPU, extras, credentials, cache and GPU for a bug report.

    Nothing secret is printed: of credentials, only where they were found.

    Examples:

      headrace doctor

      headrace doctor --json
    """
    found = examine()
    if as_json:
        show_json(found)
        return
    for topic, content in found.items():
        if not isinstance(content, dict):
            say(f"{topic}: {_text(content)}")
            continue
        say(f"{topic}:")
        for name, value in content.items():
            say(f"  {name}: {_text(value)}")


def examine() -> JsonObject:
    """Return what `headrace doctor` prints, as values that JSON can hold."""
    return {
        "headrace": {"version": headrace.__version__, "location": str(Path(headrace.__file__).parent)},
        "python": f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})",
        "system": platform.platform(),
        "cpu": _cpu(),
        "requirements": _requirements(),
        "extras": _extras(),
        "frameworks": {name: version for name in FRAMEWORKS if (version := _version(name))},
        "credentials": {store: _credentials(places) for store, places in CREDENTIALS.items()},
        "cache": _cache(),
        "gpu": _gpu(),
    }


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "not found" if value is None else str(value)


def _cpu() -> JsonObject:
    information = Path("/proc/cpuinfo")
    words: set[str] = set()
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith(("flags", "Features")):
                words = set(line.split())
                break
    return {
        "architecture": platform.machine(),
        "logical CPUs": os.cpu_count(),
        "usable CPUs": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "features": [flag for flag in CPU_FLAGS if flag in words],
        "CRC32C in hardware": _native.crc32c_in_hardware(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _declared() -> list[tuple[str, str]]:
    """Return the packages that headrace declares, each with the extra it belongs to ("" for none)."""
    lines = importlib.metadata.requires("headrace") or []
    declared = []
    for line in lines:
        name = re.split(r"[ ;<>=!~\[(]", line, maxsplit=1)[0]
        extra = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", line)
        declared.append((name, extra.group(1) if extra else ""))
    return declared


def _requirements() -> dict[str, str | None]:
    return {name: _version(name) for name, extra in _declared() if not extra}


DEVELOPMENT = ("", "test", "bench", "dev", "all", "docs", "wheels", "demo")
"""Extras that users do not install."""


def _extras() -> dict[str, str]:
    packages: dict[str, list[str]] = {}
    for name, extra in _declared():
        if extra not in DEVELOPMENT and name != "headrace":
            packages.setdefault(extra, []).append(name)
    report = {}
    for extra, names in sorted(packages.items()):
        versions = {name: _version(name) for name in names}
        missing = [name for name, version in versions.items() if version is None]
        found = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        report[extra] = found if not missing else f"missing {', '.join(missing)}: pip install 'headrace[{extra}]'"
    return report


def _credentials(places: tuple[str, ...]) -> list[str]:
    """Return the variables that are set and the files that exist."""
    files = {place for place in places if place.startswith("~") and Path(place).expanduser().exists()}
    return [place for place in places if place in files or os.environ.get(place)]


def _cache() -> JsonObject:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            writable = True
    except OSError:
        writable = False
    return {"folder": str(folder), "writable": writable, "free": bytes_text(shutil.disk_usage(existing).free)}


def _gpu() -> list[str]:
    """Return the names of GPUs, as the NVIDIA driver reports them, without importing a framework."""
    folder = Path("/proc/driver/nvidia/gpus")
    if not folder.exists():
        return []
    texts = [path.read_text() for path in sorted(folder.glob("*/information"))]
    return [match.group(1).strip() for text in texts if (match := re.search(r"Model:\s*(.+)", text))]
