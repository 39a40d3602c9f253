"""What is in the package."""
import ast
import importlib.metadata
import importlib.resources
import pathlib
import subprocess
import sys

import neap
from conftest import TREE


def test_the_package_is_the_installed_one_and_has_types():
    folder = pathlib.Path(neap.__file__).parent
    assert TREE / "apps" not in folder.parents
    assert (folder / "py.typed").exists()
    stubs = ast.parse((folder / "_neap" / "__init__.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    assert {"Graph", "Layer", "Plan", "Session", "Dataset"} <= classes.keys()
    functions = {node.name for node in stubs.body if isinstance(node, ast.FunctionDef)}
    assert {"plan", "peak_batch", "curve", "open_dataset", "Convolution"} <= functions
    nets = ast.parse((folder / "_neap" / "nets.pyi").read_text())
    assert "resnet50" in {node.name for node in nets.body if isinstance(node, ast.FunctionDef)}


def test_all_names_exist():
    assert all(hasattr(neap, name) for name in neap.__all__)


def test_the_version_is_that_of_the_project():
    line = next(line for line in (TREE / "core/base/version.h").read_text().splitlines() if "define NEAP_VERSION " in line)
    assert neap.__version__ == importlib.metadata.version("neap") == line.split('"')[1]


def test_importing_changes_no_environment():
    code = "import os; before = dict(os.environ); import neap; assert dict(os.environ) == before"
    subprocess.run([sys.executable, "-B", "-c", code], check=True)
