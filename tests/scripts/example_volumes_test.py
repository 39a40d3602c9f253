"""scripts/example_volumes.py writes volumes that a threshold does not segment, the same ones every time."""
import ast
import hashlib
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import example_volumes  # noqa: E402

DIGEST = "96a703d08acb8eb72f8b9c92f6a11bdd3387c6d6f9de527f7b0ec74db77f069f"  # of all files, in the order of their names


def read_npy(path):
    """The fields of the header, and the voxels."""
    content = path.read_bytes()
    size = int.from_bytes(content[8:10], "little")
    assert content.startswith(b"\x93NUMPY\x01\x00") and (10 + size) % 64 == 0
    return ast.literal_eval(content[10:10 + size].decode()), content[10 + size:]


class ExampleVolumesTest(unittest.TestCase):

    def test_the_files_are_volumes_and_the_classes_of_their_voxels(self):
        with tempfile.TemporaryDirectory() as folder:
            drawn = example_volumes.write_volumes(folder)
            digest = hashlib.sha256()
            for path in sorted(pathlib.Path(folder).rglob("*.npy")):
                digest.update(path.read_bytes())
            self.assertEqual(digest.hexdigest(), DIGEST)
            for split, number in example_volumes.VOLUMES.items():
                self.assertEqual(len(drawn[split]), number)
                for kind, name in enumerate(("images", "labels")):
                    files = sorted(pathlib.Path(folder, split, name).iterdir())
                    self.assertEqual(len(files), number)
                    for file, volume in zip(files, drawn[split]):
                        header, voxels = read_npy(file)
                        self.assertEqual(header, {"descr": "|u1", "fortran_order": False, "shape": (32, 32, 32)})
                        self.assertEqual(voxels, volume[kind])

    def test_every_volume_has_objects_and_thresholds_do_not_find_them(self):
        volumes = example_volumes.draw_volumes()
        for _, labels in volumes["train"] + volumes["test"]:
            self.assertGreater(sum(label > 0 for label in labels), 200)
            self.assertLessEqual(max(labels), 2)
        self.assertLess(example_volumes.threshold_dice(volumes["test"]), 0.7)

    def test_thresholds_find_what_has_no_noise(self):
        _, labels = example_volumes.draw_volumes()["test"][0]
        self.assertEqual(example_volumes.threshold_dice([(bytes(100 + 10 * label for label in labels), labels)]), 1)


if __name__ == "__main__":
    unittest.main()
