"""The Python code in the documents is run."""
import re

import pytest

from conftest import TREE


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_the_code_of_a_document_runs(document, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(TREE / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (TREE / document).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, document, "exec"), names)
    assert names["accuracy"] >= 0.96
