"""The notebook in examples/ is run."""
import sys

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from conftest import TREE

NOTEBOOK = TREE / "examples" / "digits.ipynb"


def test_the_notebook_runs_to_its_end(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)  # it is stored without outputs
    cells[-1].source += '\nprint("accuracy", accuracy)'

    (tmp_path / "data").symlink_to(TREE / "examples" / "data")
    kernels = KernelManager()
    kernels.kernel_spec.argv = [sys.executable, "-B", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    NotebookClient(notebook, km=kernels, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    printed = "".join(output.text for cell in cells for output in cell.outputs if output.output_type == "stream")
    assert float(printed.rsplit("accuracy", 1)[1]) >= 0.96
    assert any("text/html" in output.get("data", {}) for cell in cells for output in cell.outputs)  # the plan's page
