// Arrays of NumPy: the header, and elements in both orders.
#include "neap/core/data/npy.h"
#include "tests/core/data/data_files.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/scratch_directory.h"

namespace neap::testing {

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> files;
  for (const int version : {1, 2, 3})
    files.push_back(NpyBytes("<i2", "(2, 3)", "abcdefghijkl", {.version = version}));
  files.push_back(NpyBytes(">f4", "(3,)", "abcdefghijkl"));
  files.push_back(NpyBytes("<f2", "(1, 2, 3)", "abcdefghijkl", {.fortran_order = true}));
  files.push_back(NpyBytes("|u1", "()", "a"));
  files.push_back(NpyBytes("[('x', '<f4'), ('y', '<f4')]", "(1,)", "abcdefgh"));
  return files;
}

void ReadFuzzed(std::string_view bytes) {
  static const ScratchDirectory directory;
  const std::string path = directory.File("a.npy");
  WriteText(path, bytes);
  const absl::StatusOr<NpyFile> file = NpyFile::Open(path);
  if (!file.ok()) return;
  int64_t elements = 1;
  for (const int64_t extent : file->extents()) elements *= extent;
  const absl::StatusOr<std::vector<float>> values = file->ReadFloats();
  if (!values.ok()) FailFuzzed("an accepted file cannot be read");
  if (static_cast<int64_t>(values->size()) != elements)
    FailFuzzed("an array has another number of elements than its extents");
  file->ReadIntegers().status().IgnoreError();
}

}  // namespace neap::testing
