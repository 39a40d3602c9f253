"""scripts/pytorch_peaks.py without PyTorch: what is searched, and how."""
import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import pytorch_peaks  # noqa: E402
from comparison import peaks  # noqa: E402


class Search(unittest.TestCase):
    def test_the_largest_multiple_that_fits_is_found(self):
        for unit in (1, 16):
            for most in (16, 100, 1024):
                for limit in range(0, 1100, 7):
                    tried = []

                    def fits(size):
                        tried.append(size)
                        return size <= limit  # pylint: disable=cell-var-from-loop

                    found = peaks.largest(fits, unit, most)
                    self.assertEqual(found, min(limit, most) // unit * unit, (unit, most, limit))
                    self.assertEqual(len(tried), len(set(tried)), "no size is tried twice")
                    self.assertTrue(all(size % unit == 0 and size <= most for size in tried))

    def test_depths_are_those_of_the_paper(self):
        self.assertEqual(peaks.depth_of(1), 137)
        self.assertEqual((peaks.depth_of(595)), 1919)


class Requests(unittest.TestCase):
    def requests(self, *arguments):
        return list(pytorch_peaks.requests(pytorch_peaks.arguments_parser().parse_args(arguments)))

    def test_networks_with_blocks_are_also_checkpointed(self):
        found = self.requests("--nets", "alexnet,resnet50", "--dtypes", "fp32,bf16", "--budget-gib", "1.5")
        self.assertEqual([(one["network"], one["dtype"], one["checkpoint"]) for one in found],
                         [("alexnet", "fp32", False), ("alexnet", "bf16", False), ("resnet50", "fp32", False),
                          ("resnet50", "fp32", True), ("resnet50", "bf16", False), ("resnet50", "bf16", True)])
        self.assertEqual(found[0]["budget_bytes"], 3 * 2**29)
        self.assertIsNone(found[0]["batch"])

    def test_the_depth_of_the_deep_resnet_is_searched_at_a_batch(self):
        self.assertEqual({one["batch"] for one in self.requests("--nets", "resnet", "--depth-batch", "8")}, {8})

    def test_an_unknown_network_is_refused(self):
        with self.assertRaises(SystemExit):
            self.requests("--nets", "nonsense")


class Command(unittest.TestCase):
    def test_a_search_that_fails_is_a_line_with_its_error(self):
        ended = subprocess.run([sys.executable, ROOT / "scripts/pytorch_peaks.py", "--nets", "alexnet", "--dtypes", "fp32", "--device",
                                "nowhere"], capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 1)
        line = json.loads(ended.stdout.strip())
        self.assertEqual(line["network"], "alexnet")
        self.assertTrue(line["error"])


if __name__ == "__main__":
    unittest.main()
