"""scripts/example_sentences.py writes what lies in examples/data/sentences."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/example_sentences.py"
DATA = ROOT / "examples/data/sentences"


class ExampleSentencesTest(unittest.TestCase):

    def test_the_script_writes_the_files_of_the_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, SCRIPT, folder], check=True)
            for name in ("train.bin", "val.bin", "words.txt"):
                self.assertEqual(pathlib.Path(folder, name).read_bytes(), (DATA / name).read_bytes(), name)

    def test_each_number_is_a_word(self):
        words = (DATA / "words.txt").read_text().splitlines()
        for name in ("train.bin", "val.bin"):
            stored = (DATA / name).read_bytes()
            numbers = {int.from_bytes(stored[i:i + 2], "little") for i in range(0, len(stored), 2)}
            self.assertEqual(numbers, set(range(len(words))), name)


if __name__ == "__main__":
    unittest.main()
