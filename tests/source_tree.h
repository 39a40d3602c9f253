// Where the sources that the tests were built from lie: data and documents that tests read.
#pragma once

#include <filesystem>

namespace neap {

// *Example*: SourceTree() / "examples/data/digits"
std::filesystem::path SourceTree();

}  // namespace neap
