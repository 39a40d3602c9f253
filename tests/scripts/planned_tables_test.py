"""scripts/tables/planned_tables.py with a command that plans everything alike."""
import pathlib
import stat
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/tables"))
import planned_tables  # noqa: E402

NEAP = f"""#!{sys.executable}
import json, sys
if "--curve" in sys.argv:
    print("a curve")
elif "chen" in sys.argv:
    sys.exit("neap: too small; the smallest feasible budget is 5 bytes")
else:
    print(json.dumps({{"peak_activation_mib": 1.5, "peak_step": 7, "peak_layer": "bn1", "arena_bytes": 2**31, "extra_forwards": 3,
                      "offloaded_bytes": 2**30, "prefetched_bytes": 0, "predicted_ms": 12.34}}))
"""


class PlannedTablesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name) / "neap"
        program.write_text(NEAP)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.neap = planned_tables.Neap(str(program))

    def test_rows_keep_their_first_cells(self):
        head = ["| policy | ... |", "|---|---|"]
        self.assertEqual(planned_tables.policies(self.neap, head + ["| `auto --budget 5GiB` | 1 |"]),
                         head + ["| `auto --budget 5GiB` | 1.500 | 7, bn1 | 2.000 | 3 | 1.000 | 0 | 12.3 |"])
        self.assertEqual(planned_tables.resnet50(self.neap, head + ["| 6.5 | 1 |"]),
                         head + ["| 6.5 | 12.3 | 12.3 | 12.3 | does not fit | 12.3 |"])

    def test_budgets_are_parts_of_the_unlimited_memory(self):
        rows = planned_tables.fractions(self.neap, ["| net |", "|---|", "| U-Net, 32 | 1 | 2 |", "| | | 3 |"])
        self.assertEqual(rows[2:], ["| U-Net, 32 | 12.3 | 1.00 | 12.3 | 12.3 | 12.3 |", "|  |  | 0.67 | 12.3 | 12.3 | 12.3 |"])

    def test_a_block_of_text_is_replaced(self):
        lines = ["before", "```text", "old", "older", "```", "after"]
        end = planned_tables.block_at(lines, 1)
        self.assertEqual(lines[end], "after")
        self.assertEqual(planned_tables.curve(self.neap, lines[1:end]), ["```text", "a curve", "```"])

    def test_every_marked_table_of_the_documents_is_known(self):
        marks = [line for page in (ROOT / "docs").rglob("*.md") for line in page.read_text().splitlines() if line.startswith("<!-- planned")]
        self.assertEqual({mark.split()[2] for mark in marks}, set(planned_tables.TABLES))


if __name__ == "__main__":
    unittest.main()
