"""scripts/installed_profile.py on a database of its own: what it writes has all rows and every operation's text."""

import contextlib
import csv
import io
import pathlib
import sqlite3
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import installed_profile  # noqa: E402

H200 = ("NVIDIA H200", "cuDNN 9, cuBLASLt 13")
CONV = "convolution forward training kernel=3x3 input[0]=Nx3x8x8:fp32:nchw output[0]:=Nx4x8x8:fp32:nchw param[0]=4x3x3x3:fp32:nchw"
ROWS = [  # operation, batch, engine, workspace_bytes, deterministic, median_seconds, failure
    (CONV, 8, "eng1_k=2", 4096, 1, 1.23456e-5, None),
    (CONV, 8, "eng7", 0, 0, 0.0123456, None),
    (CONV, 8, "broken", 0, 1, None, "not supported"),
    (CONV, 128, "eng1_k=2", 2**40, 1, 12.3456789, None),
    (CONV.replace("forward", "backward_data"), 8, "eng7", 131, 1, 8.4848e-7, None),
    (CONV.replace("8x8:fp32", "8x8:bf16"), 8, "cast:eng1", 131, 1, 1e-4, None),
    ("sgd update training param[0]+=4:fp32:nchw param_grad[0]=4:fp32:nchw", 1, "neap", 0, 1, 2e-6, None),
    ("relu forward training", 1, "neap", 0, 1, 0.3607204, None),
    ("odd  text = with=two==signs and a space ", 3, "neap", 0, 1, 1e-3, None),
]


def write_database(path, systems=(H200,), rows=ROWS):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE profile (device, versions, operation, batch, engine, workspace_bytes, deterministic, "
                         "median_seconds, failure)")
        for system in systems:
            database.executemany("INSERT INTO profile VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", [(*system, *row) for row in rows])


def run(*arguments):
    """The exit code and what was printed."""
    printed = io.StringIO()
    with mock.patch.object(sys, "argv", ["installed_profile.py", *map(str, arguments)]), contextlib.redirect_stdout(printed), \
            contextlib.redirect_stderr(printed):
        code = installed_profile.main()
    return code, printed.getvalue()


class InstalledProfile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.database, self.file = self.folder / "h200.db", self.folder / "h200.txt"

    def write(self, rows=ROWS):
        self.database.unlink(missing_ok=True)
        write_database(self.database, rows=rows)
        code, printed = run(self.database, "--out", self.file)
        self.assertEqual(code, 0, printed)
        return printed

    def test_round_trip(self):
        self.assertIn("6 operations, 8 times", self.write())
        device, versions, operations = installed_profile.read_text(self.file.read_text())
        self.assertEqual((device, versions), H200)
        measured = [row for row in ROWS if row[-1] is None]
        self.assertEqual(set(operations), {row[0] for row in measured})
        found = {(operation, row.batch, row.engine): row for operation, rows in operations.items() for row in rows}
        self.assertEqual(len(found), len(measured))
        for operation, batch, engine, workspace_bytes, deterministic, seconds, _ in measured:
            row = found[operation, batch, engine]
            self.assertEqual((row.workspace_bytes, row.deterministic), (workspace_bytes, bool(deterministic)))
            self.assertAlmostEqual(float(row.microseconds) * 1e-6 / seconds, 1, delta=5e-4)

    def test_the_output_depends_on_the_rows_only(self):
        self.write()
        first = self.file.read_bytes()
        self.write(rows=ROWS[::-1])
        self.assertEqual(self.file.read_bytes(), first)

    def test_check(self):
        self.write()
        self.assertEqual(run("--check", self.file, self.database), (0, ""))
        self.database.unlink()
        write_database(self.database, rows=[*ROWS[2:], ("new", 1, "neap", 0, 1, 1e-6, None)])
        code, printed = run("--check", self.file, self.database)
        self.assertEqual(code, 1)
        self.assertIn("1 operations are missing, 0 superfluous, and 1 have other rows", printed)
        self.file.write_text("neap installed profile 2\n")
        code, printed = run("--check", self.file, self.database)
        self.assertEqual(code, 1)
        self.assertIn("it cannot be read", printed)

    def test_print(self):
        self.write()
        code, printed = run("--print", self.file)
        self.assertEqual(code, 0)
        rows = list(csv.DictReader(io.StringIO(printed)))
        self.assertEqual(len(rows), 8)
        self.assertIn({"device": H200[0], "versions": H200[1], "operation": CONV, "batch": "8", "engine": "eng7",
                       "workspace_bytes": "0", "deterministic": "0", "microseconds": "12350"}, rows)

    def test_several_systems(self):
        other = (H200[0], "cuDNN 10")
        write_database(self.database, systems=(H200, other))
        code, printed = run(self.database, "--out", self.file)
        self.assertEqual(code, 1)
        self.assertIn("2 systems", printed)
        self.assertEqual(run(self.database, "--out", self.file, "--versions", "cuDNN 10")[0], 0)
        self.assertEqual(installed_profile.read_text(self.file.read_text())[:2], other)

    def test_a_missing_database(self):
        code, printed = run(self.folder / "none.db", "--out", self.file)
        self.assertEqual(code, 1)
        self.assertIn("there is no such file", printed)
        self.assertFalse(self.file.exists())

    def test_installed_texts(self):
        """Those of the tree can be read, and are as the script would write them."""
        texts = sorted(installed_profile.FOLDER.glob("*.txt"))
        self.assertTrue(texts)
        for path in texts:
            text = path.read_text()
            self.assertEqual(installed_profile.to_text(*installed_profile.read_text(text)), text)


if __name__ == "__main__":
    unittest.main()
