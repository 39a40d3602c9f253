"""scripts/check_floors.py on small trees: which includes go down, and the line that names one that does not."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/check_floors.py"

FLOORS = """
core/base
core/step core/input
layers layers/conv
layers/cpu layers/cuda
memory
apps/cli core/neap.h
apps core/advanced.h   # main.cc
only layers/cpu: dnnl*.h* oneapi/*
only layers/cuda: cuda*.h cudnn*.h
only memory: sqlite3.h
closed core/neap.h core/advanced.h
calls core/step apps/main.cc: Build BuildPart
"""

# A tree that goes down.
TREE = {
    "core/base/units.h": "#include <string>\n",
    "core/base/units.cc": '#include "neap/core/base/units.h"\n',
    "core/step/kernel.h": '#include "neap/core/base/units.h"\n',
    "core/input/loader.h": '#include "neap/core/base/units.h"\n',
    "layers/join.h": '#include "neap/core/step/kernel.h"\n',
    "layers/conv/knapsack.cc": "#include <vector>\n",
    "layers/cpu/cpu_device.cc": '#include "dnnl.hpp"\n#include "neap/layers/join.h"\n',
    "layers/cuda/cuda_device.cc": "#include <cuda_runtime_api.h>\n",
    "layers/cuda/kernels/relu.cu": "#include <cuda_fp16.h>\n",
    "memory/planner.h": '#include "neap/layers/cuda/cuda_device.h"\n',
    "core/neap.h": '#include "neap/memory/planner.h"\n#include "neap/layers/cpu/cpu_device.h"\n',
    "core/advanced.h": '#include "neap/core/neap.h"\n#include "neap/core/step/kernel.h"\n',
    "apps/cli/flags.cc": '#include "neap/core/base/units.h"\n',
    "apps/main.cc": '#include "apps/cli/flags.h"\n',
}


class CheckFloorsTest(unittest.TestCase):

    def check(self, changes, expected):
        """Runs the script on the tree with `changes` ({file: text}), which is to print the lines `expected`."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for file, text in {"scripts/floors.txt": FLOORS, **TREE, **changes}.items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text)
            run = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
        self.assertEqual(run.stderr, "")
        self.assertEqual(run.stdout.splitlines(), expected)
        self.assertEqual(run.returncode, 1 if expected else 0)

    def test_a_tree_that_goes_down_passes(self):
        self.check({}, [])

    def test_an_include_that_is_turned_round_is_named_with_file_line_room_and_header(self):
        self.check({"core/base/units.h": '#include <string>\n\n#include "neap/core/step/kernel.h"\n'},
                   ["core/base/units.h:3: core/base includes core/step/kernel.h, which is not below it"])

    def test_rooms_on_one_floor_include_each_other_in_neither_direction(self):
        there = "core/input/loader.h:1: core/input includes core/step/kernel.h, which is not below it"
        back = "core/step/kernel.h:1: core/step includes core/input/loader.h, which is not below it"
        loader = {"core/input/loader.h": '#include "neap/core/step/kernel.h"\n'}
        kernel = {"core/step/kernel.h": '#include "neap/core/input/loader.h"\n'}
        self.check(loader, [there])
        self.check(kernel, [back])
        self.check({**loader, **kernel}, [there, back])

    def test_a_room_inside_another_is_a_room_of_its_own(self):
        self.check({"layers/join.h": '#include "neap/layers/conv/knapsack.h"\n'},
                   ["layers/join.h:1: layers includes layers/conv/knapsack.h, which is not below it"])

    def test_a_file_that_lies_in_no_room_is_named(self):
        self.check({"core/stray.cc": "\n"}, ["core/stray.cc: in no room of scripts/floors.txt"])
        self.check({"core/stray/stray.h": "\n"}, ["core/stray/stray.h: in no room of scripts/floors.txt"])

    def test_a_library_is_included_by_its_owner_alone(self):
        for header, owner in [("dnnl.hpp", "layers/cpu"), ("oneapi/dnnl/dnnl.hpp", "layers/cpu"),
                              ("cuda_runtime_api.h", "layers/cuda"), ("cudnn_frontend.h", "layers/cuda"),
                              ("sqlite3.h", "memory")]:
            with self.subTest(header):
                self.check({"layers/join.h": f"#include <{header}>\n"},
                           [f"layers/join.h:1: layers includes {header}, which only {owner} may"])
                self.check({f"{owner}/owner.cc": f"#include <{header}>\n"}, [])

    def test_a_function_is_called_only_where_it_may_be(self):
        call = {"memory/planner.cc": "int a = 1;\nint b = BuildPart(net, Build(net)), c = Rebuild(net) + Builder(net);\n"}
        self.check(call, [f"memory/planner.cc:2: {function}() is called, which only core/step and apps/main.cc may"
                          for function in ("BuildPart", "Build")])
        for file in ["core/step/build.cc", "apps/main.cc", "tests/planner_test.cc"]:
            self.check({file: "int a = Build(net);\n"}, [])
        self.check({"examples/own.cc": "int a = Build(net);\n"},
                   ["examples/own.cc:1: Build() is called, which only core/step and apps/main.cc may"])

    def test_the_front_door_may_include_everything_below_it(self):
        every = "".join(f'#include "neap/{file}"\n' for file in TREE
                        if file.endswith(".h") and file not in ("core/neap.h", "core/advanced.h"))
        self.check({"core/neap.h": every}, [])
        self.check({"core/neap.h": '#include "apps/train.h"\n'},
                   ["core/neap.h:1: core/neap.h includes apps/train.h, which is not below it"])

    def test_nothing_else_includes_a_front_door(self):
        for room, file in [("core/base", "core/base/units.h"), ("memory", "memory/planner.h"), ("apps", "apps/main.cc")]:
            for header in ["neap/neap.h", "neap/core/neap.h", "neap/advanced.h", "neap/core/advanced.h"]:
                door = f"core/{pathlib.PurePosixPath(header).name}"
                with self.subTest(file=file, header=header):
                    self.check({file: f"#include <{header}>\n"},
                               [f"{file}:1: {room} includes {door}, which no room may"])

    def test_a_front_door_includes_only_those_below_it(self):
        self.check({"core/advanced.h": "#include <neap/neap.h>\n"}, [])
        self.check({"core/neap.h": "#include <neap/advanced.h>\n"},
                   ["core/neap.h:1: core/neap.h includes core/advanced.h, which is not below it"])


if __name__ == "__main__":
    unittest.main()
