"""tests/cuda_emulation/translate.py: what it rewrites, what it leaves alone, and what it refuses."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests/cuda_emulation/translate.py"


def translate(text):
    """Returns the copy without its #line directive, or the message that refuses the text."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "kernels.cu"
        source.write_text(text)
        run = subprocess.run([sys.executable, "-B", SCRIPT, source, "--output", f"{folder}/copies"], capture_output=True, text=True)
        if run.returncode != 0:
            return run.stderr.strip().removeprefix(f"{source}:")
        line, copy = (pathlib.Path(folder) / "copies/kernels.cu.cc").read_text().split("\n", 1)
        assert line == f'#line 1 "{source.resolve()}"', line
        return copy


class TranslateTest(unittest.TestCase):
    def check(self, text, expected):
        self.assertEqual(translate(text).replace("::neap::emulation::", ""), expected)

    def test_launch(self):
        self.check("Twice<<<1, 32>>>(x, f(n, 2));\n",
                   'Launch("Twice", 1, 32)([](auto... of) { Twice(of...); }, x, f(n, 2));\n')
        self.check("Stop<<<1, 1>>>();\n", 'Launch("Stop", 1, 1)([](auto... of) { Stop(of...); });\n')

    def test_template_of_a_launch(self):
        self.check("a ? k::Map<Pair<T, (kVec > 1)>, 4><<<dim3(b(n), 2), kThreads, 0, s>>>(op) : F();\n",
                   'a ? Launch("k::Map<Pair<T, (kVec > 1)>, 4>", dim3(b(n), 2), kThreads, 0, s)'
                   '([](auto... of) { k::Map<Pair<T, (kVec > 1)>, 4>(of...); }, op) : F();\n')

    def test_lines_are_kept(self):
        copy = translate("F<T>\n    <<<1,\n      2>>>(a,\n  b);\nint line5;\n")
        self.assertEqual(copy.split("\n")[4], "int line5;")

    def test_shared_memory(self):
        self.check("__shared__ float a[8][kN / 2];\n",
                   "__shared__ float a[8][kN / 2]; NewShared(&a, sizeof(a));\n")
        self.check("__shared__ typename Total::template Of<double> rows;\n",
                   "__shared__ typename Total::template Of<double> rows; NewShared(&rows, sizeof(rows));\n")

    def test_assembly(self):
        self.check('asm volatile("atom.inc %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(f(n, 1)) : "memory");\n',
                   'Assembly("atom.inc %0, [%1], %2;", (old), (p), (f(n, 1)));\n')

    def test_comments_and_text_are_left_alone(self):
        text = "// Twice<<<1, 32>>>(x);\n/* __shared__ int a; */ const char* s = \"f<<<1, 2>>>(\\\"x\\\")\"; char c = '<'; int n = 1'000;\n"
        self.check(text, text)

    def test_faults(self):
        self.assertEqual(translate("int a;\nextern __shared__ float all[];\n"), "2: dynamic shared memory is not emulated")
        self.assertEqual(translate("Twice<<<1, 32(x);\n"), "1: no >>>")
        self.assertEqual(translate("int a = 1 <<< 2;\n"), "1: no >>>")


if __name__ == "__main__":
    unittest.main()
