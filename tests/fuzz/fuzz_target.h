// What a libFuzzer target for one file format defines; fuzz_main.cc does the rest. Whatever the
// bytes are, reading them ends soon, within 1 GiB, with a value or an error, and a value that was
// accepted can be used. A build with AddressSanitizer by Clang has the targets:
//
//   scripts/build.sh asan-ubsan
//   build/asan-ubsan/tests/fuzz/fuzz_plan -max_total_time=60 CORPUS_FOLDER
//   build/asan-ubsan/tests/fuzz/fuzz_plan crash-0123456789     to repeat what has failed
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace neap::testing {

// Valid files from which the fuzzer starts.
std::vector<std::string> FuzzSeeds();
void ReadFuzzed(std::string_view bytes);

// Ends the program with this text, so that the fuzzer keeps the input.
[[noreturn]] void FailFuzzed(std::string_view what);

}  // namespace neap::testing
