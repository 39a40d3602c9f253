#include "tests/source_tree.h"

namespace neap {

std::filesystem::path SourceTree() { return NEAP_SOURCE_TREE; }

}  // namespace neap
