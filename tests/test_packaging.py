"""The wheel as an embedder gets it: installed beside an application with modules of the very names of our folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("models", "solver", "api")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

APPLICATION = """
import importlib, importlib.metadata, json, pkgutil, sys
import models, solver, api
import gangfit.api, gangfit.models, gangfit.solver
from gangfit.models import Snapshot
from gangfit.solver import apply, check, solve

snapshot = Snapshot.model_validate({
    "nodes": [{"name": "a", "gpus": 8}, {"name": "b", "gpus": 4}],
    "pending": [{"name": "train", "members": 2, "request": {"gpus": 4}, "topology": {"required": "node"}}],
})
plan = solve(snapshot)
modules = [
    module.name
    for package in (gangfit.models, gangfit.solver, gangfit.api)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]
for module in modules:
    if not module.endswith("__main__"):
        importlib.import_module(module)
print(json.dumps({
    "own": [models.WHOSE, solver.WHOSE, api.WHOSE],
    "placement": plan.placements[0].nodes(),
    "status": plan.status,
    "ok": check(snapshot, plan).ok,
    "waiting": len(apply(snapshot, plan).pending),
    "modules": modules,
    "files": [gangfit.models.__file__, gangfit.solver.__file__, gangfit.api.__file__],
    "version": importlib.metadata.version("gangfit"),
    "path": str(importlib.metadata.distribution("gangfit").locate_file("")),
}))
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Output of a command that has to succeed, in an environment without Python settings of ours."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "COV"))}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target, source, cwd=target)
    (built,) = target.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; dependencies come from the running one, but no editable install does."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    pip = ("-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run(sys.executable, *pip, wheel, cwd=home)
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip())
    # A folder named in a .pth is on the path, but the .pth files inside it aren't read.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


@pytest.fixture(scope="module")
def application(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What an application says that has modules `models`, `solver` and `api` of its own."""
    folder = tmp_path_factory.mktemp("application")
    for name in FOLDERS:
        (folder / f"{name}.py").write_text("WHOSE = 'application'\n")
    (folder / "main.py").write_text(APPLICATION)
    answer: dict[str, object] = json.loads(run(installed / "bin" / "python", folder / "main.py", cwd=folder))
    return answer


def modules() -> set[str]:
    """Every module of the sources, but for `__init__`."""
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            parts = ("gangfit", *path.relative_to(ROOT).with_suffix("").parts)
            found.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found - {f"gangfit.{folder}" for folder in FOLDERS}


class TestWheel:
    def test_holds_every_module_and_nothing_else(self, wheel: Path) -> None:
        files = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
        python = {name[:-3].removesuffix("/__init__").replace("/", ".") for name in files if name.endswith(".py")}
        assert python == modules() | {f"gangfit.{folder}" for folder in FOLDERS}
        assert {name for name in files if not name.endswith(".py")} == {
            f"gangfit/{folder}/py.typed" for folder in FOLDERS
        }

    def test_carries_licence_and_readme(self, wheel: Path) -> None:
        archive = zipfile.ZipFile(wheel)
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
        assert "License-Expression: Apache-2.0" in text
        assert (ROOT / "README.md").read_text().splitlines()[0] in text
        assert any(name.endswith("LICENSE") for name in archive.namelist())

    def test_every_package_is_listed(self) -> None:
        """One that isn't would import where the sources lie, and be absent from the wheel."""
        packages = {".".join(("gangfit", *path.parent.relative_to(ROOT).parts)) for folder in FOLDERS
                    for path in (ROOT / folder).rglob("__init__.py")}  # fmt: skip
        assert packages == set(PROJECT["tool"]["setuptools"]["packages"])


class TestInstalled:
    def test_solves_checks_and_applies(self, application: dict[str, object]) -> None:
        assert (application["status"], application["ok"], application["waiting"]) == ("optimal", True, 0)
        assert application["placement"] == {"a": 2}

    def test_the_applications_modules_stay_its_own(self, application: dict[str, object]) -> None:
        assert application["own"] == ["application"] * 3

    def test_every_module_imports(self, application: dict[str, object]) -> None:
        assert set(application["modules"]) == modules()  # type: ignore[call-overload]

    def test_it_is_the_wheel_that_was_imported(self, application: dict[str, object], installed: Path) -> None:
        places = [*application["files"], application["path"]]  # type: ignore[misc]
        assert all(Path(place).is_relative_to(installed) for place in places)

    def test_version(self, application: dict[str, object], installed: Path) -> None:
        assert application["version"] == PROJECT["project"]["version"]
        printed = run(installed / "bin" / "gangfit", "version", cwd=installed)
        assert f"gangfit {PROJECT['project']['version']}" in printed

    def test_marks_itself_as_typed(self, installed: Path) -> None:
        assert len(list(installed.glob("lib/python*/site-packages/gangfit/*/py.typed"))) == 3
