// Facts about flags by their names, for all subcommands: the section of a long help text in which a
// flag stands, and the flags that other programs' names mean.
//
//   SectionOf("lr", "X");                       // 4, the place of "training" in Sections()
//   MeantBy("batch-size", {"batch", "image"});  // "batch"
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace neap::apps {

// The headings of the sections, in their order. The last one is that of all other flags.
absl::Span<const char* const> Sections();
// `placeholder` tells flags apart that have the same name in several subcommands.
size_t SectionOf(const std::string& name, const std::string& placeholder);

// The flag among `known` for which PyTorch, its recipes or similar programs have the name `given`:
// empty if there is none.
std::string MeantBy(const std::string& given, const std::vector<std::string>& known);

}  // namespace neap::apps
