// The directory of the sources from which the tests were built, for data and documents that tests
// read.
#pragma once

#include <filesystem>

namespace neap {

// *Example*: SourceTree() / "examples/data/digits"
std::filesystem::path SourceTree();

}  // namespace neap
