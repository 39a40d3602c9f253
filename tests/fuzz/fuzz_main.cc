// The functions that libFuzzer calls.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_target.h"

namespace neap::testing {

void FailFuzzed(std::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace neap::testing

// The last argument, if it is a folder, is the corpus, which gets the seeds.
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static doctest::Context context;  // for what tests share, which checks itself by doctest
  context.setAsDefaultForAssertsOutOfTestCases();
  const std::filesystem::path corpus = (*arguments)[*count - 1];
  if (*count < 2 || !std::filesystem::is_directory(corpus)) return 0;
  int number = 0;
  for (const std::string& seed : neap::testing::FuzzSeeds())
    std::ofstream(corpus / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  neap::testing::ReadFuzzed({reinterpret_cast<const char*>(bytes), count});
  return 0;
}
