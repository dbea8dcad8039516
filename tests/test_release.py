"""What a release needs: one version everywhere, complete metadata, workflows that refer to what exists."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml

import headrace as hr

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_there_is_one_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert PROJECT["project"]["version"] == hr.__version__ == citation["version"]


def test_the_changelog_describes_this_version():
    assert re.search(rf"^## \[?{re.escape(hr.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_every_extra_for_users_is_part_of_all():
    extras = PROJECT["project"]["optional-dependencies"]
    named = {name for line in extras["all"] for name in re.findall(r"[\w_]+", line.partition("[")[2])}
    assert named == set(extras) - {"all", "bench", "demo", "dev", "docs", "sqlite", "test", "wheels"}


@pytest.mark.parametrize(
    "name", ["SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "LICENSE", "docs/stability.md"]
)
def test_a_page_that_contributors_look_for_exists(name):
    assert len((ROOT / name).read_text()) > 500


def test_the_workflows_run_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    wanted = {target for path in WORKFLOWS for target in re.findall(r"run: make ([\w-]+)", path.read_text())}
    assert wanted >= {"check", "test", "docs"}
    assert {target for target in wanted if not re.search(rf"^{target}:", makefile, re.MULTILINE)} == set()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_grants_few_permissions_and_has_time_limits(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"].values()
    assert all("timeout-minutes" in job or "environment" in job for job in jobs)
    assert all(step.get("run") or "@" in step["uses"] for job in jobs for step in job["steps"])


def test_wheels_of_the_stable_abi_are_for_the_version_that_the_tools_expect():
    tool = runpy.run_path(str(ROOT / "tools/build_wheels.py"))
    assert PROJECT["tool"]["scikit-build"]["wheel"]["py-api"] == "cp{}{}".format(*tool["OLDEST_ABI3"])
    assert "STABLE_ABI" in (ROOT / "CMakeLists.txt").read_text()
