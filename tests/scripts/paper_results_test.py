"""scripts/tables/paper_results.py on the JSON of two items."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/tables/paper_results.py"


def item(name, setting, *figures):
    return {"item": name, "paper": "moDNN", "place": "Figure 1", "shows": "memory", "setting": setting, "notes": ["A note."],
            "tables": [{"title": "net", "figures": [dict(zip(("what", "unit", "paper", "neap"), figure)) for figure in figures]}]}


class PaperResultsTest(unittest.TestCase):
    def printed(self, *folders):
        with tempfile.TemporaryDirectory() as root:
            paths = []
            for number, items in enumerate(folders):
                paths.append(pathlib.Path(root) / str(number))
                paths[-1].mkdir()
                for one in items:
                    (paths[-1] / f"{one['item']}.json").write_text(json.dumps(one))
            return subprocess.run([sys.executable, SCRIPT, *paths], capture_output=True, text=True, check=True).stdout

    def test_published_figures_stand_beside_ours(self):
        text = self.printed([item("a", "planned", ("peak", "GiB", 2.5, 1.23456), ("drawn", "GiB", None, 3), ("theirs", "", 7, None))])
        self.assertIn("**Figure 1: memory** (`neap paper a`; planned)", text)
        self.assertIn("| net | peak | 2.5 GiB | 1.235 GiB |\n", text)
        self.assertNotIn("drawn", text)
        self.assertNotIn("theirs", text)
        self.assertIn("A note.", text)

    def test_what_was_measured_needs_no_published_figure(self):
        self.assertIn("| net | speed |  | 1234 images/s |", self.printed([item("a", "executed on X", ("speed", "images/s", None, 1234.4))]))

    def test_a_later_folder_replaces_items(self):
        text = self.printed([item("a", "planned", ("peak", "GiB", 1, 2))], [item("a", "planned", ("peak", "GiB", 1, 3))])
        self.assertIn("| 3 GiB |", text)
        self.assertNotIn("| 2 GiB |", text)


if __name__ == "__main__":
    unittest.main()
