"""scripts/setup.sh where packages are missing that it may not install: everything is named at once, with ways out."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ["awk", "basename", "bash", "cat", "dirname", "grep", "head", "mkdir", "nproc", "sed", "sort"]
LIBRARIES = ["libabsl-dev", "libboost-dev", "libdnnl-dev", "ocl-icd-opencl-dev", "nlohmann-json3-dev",
             "libsqlite3-dev", "zlib1g-dev", "ca-certificates", "libopenmpi-dev", "openmpi-bin", "libjpeg-dev", "libpng-dev",
             "libnifti2-dev", "libprotobuf-dev"]
PROGRAMS = ["g++", "cmake", "make", "ninja", "ccache", "protoc"]
ONLY_TESTS = ["doctest-dev", "libbenchmark-dev", "python3", "pkg-config", "dpkg-dev", "file"]


class SetupTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        # Where there is a GPU: nothing is taken from PyPI.
        self.program("nvcc", "")
        header = self.root / "build/deps/cudnn-frontend/include/cudnn_frontend.h"
        header.parent.mkdir(parents=True)
        header.touch()

    def program(self, name, script):
        (self.bin / name).write_text("#!/bin/sh\n" + script)
        (self.bin / name).chmod(0o755)

    def run_setup(self, *options, packages=(), programs=(), user=1000):
        self.program("id", f"echo {user}\n")
        known = "".join(f"{package}) echo install ok installed; exit ;;\n" for package in packages)
        self.program("dpkg-query", f'for last; do :; done\ncase "$last" in\n{known}esac\nexit 1\n')
        for program in programs:
            self.program(program, "echo version 3.25.1\n")
        run = subprocess.run([self.bin / "bash", self.root / "scripts/setup.sh", *options], capture_output=True,
                             text=True, env={"PATH": str(self.bin), "HOME": os.environ.get("HOME", "/")})
        self.assertEqual(run.stdout, "")
        return run.returncode, run.stderr

    def test_nothing_is_said_where_everything_is_there(self):
        self.assertEqual(self.run_setup(packages=LIBRARIES, programs=PROGRAMS), (0, ""))

    def test_without_root_and_sudo_everything_missing_is_named_at_once_with_ways_out(self):
        code, text = self.run_setup(packages=["libboost-dev", "ca-certificates", "nlohmann-json3-dev"],
                                    programs=["g++", "cmake", "make", "ccache", "protoc"])
        self.assertEqual(code, 1)
        missing = "ninja-build libabsl-dev libdnnl-dev ocl-icd-opencl-dev libsqlite3-dev zlib1g-dev libopenmpi-dev openmpi-bin libjpeg-dev libpng-dev libnifti2-dev libprotobuf-dev"
        self.assertIn(f"setup: missing: {missing}\n", text)
        self.assertIn(f"apt-get install {missing}\n", text)
        self.assertIn("-DNEAP_FETCH=ON", text)
        self.assertIn("-DCMAKE_PREFIX_PATH=FOLDER", text)

    def test_what_only_tests_need_is_wanted_for_them_alone(self):
        for option in ["--build-tests", "--tests"]:
            with self.subTest(option):
                code, text = self.run_setup(option, packages=LIBRARIES, programs=PROGRAMS + ["google-chrome"])
                self.assertEqual(code, 1)
                self.assertIn("setup: missing: " + " ".join(ONLY_TESTS) + "\n", text)

    def test_options_add_up_and_no_package_is_named_twice(self):
        code, text = self.run_setup("--build-tests", "--lint", packages=LIBRARIES, programs=PROGRAMS)
        self.assertEqual(code, 1)
        self.assertIn("setup: missing: doctest-dev libbenchmark-dev python3 pkg-config dpkg-dev file clang-format-14 clang-tidy-14\n", text)

    def test_an_option_that_it_does_not_know_is_refused(self):
        self.assertEqual(self.run_setup("--everything"), (1, "setup: unknown option --everything\n"))

    def test_with_sudo_they_are_installed(self):
        log = self.root / "log"
        self.program("sudo", f'echo "$@" >> {log}\n')
        self.assertEqual(self.run_setup(packages=LIBRARIES[1:], programs=PROGRAMS)[0], 0)
        self.assertIn("apt-get install", log.read_text())
        self.assertTrue(log.read_text().endswith("libabsl-dev\n"))


if __name__ == "__main__":
    unittest.main()
