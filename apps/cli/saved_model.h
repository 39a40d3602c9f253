// The network of trained weights, as their file names it (core/checkpoint/model_description.h), so
// that the flags of its training need not be repeated.
//
//   ASSIGN_OR_RETURN(const SavedModel saved, CompleteFromFile(weights, flags, net));
//   ASSIGN_OR_RETURN(const Graph graph, net.Build());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/flags.h"
#include "apps/cli/net_flags.h"

namespace neap::apps {

struct SavedModel {
  std::vector<std::string> classes;  // their names, by number; empty: unknown
  std::vector<std::string> notes;    // flags that are not as in the file
};

// Gives `net` the file's network if it has no name, and of the file's flags those that `given` has
// and that were not among the arguments. If another network was named, all is left as it is.
// Without a file, nothing is done. Errors: those of reading the file; BadUsage() if no network is
// named.
absl::StatusOr<SavedModel> CompleteFromFile(const std::string& weights, const FlagSet& given,
                                            NetFlags& net);

// The number of outputs that the file names; nullopt if it names none, or another network than
// this. Errors: those of reading the file.
absl::StatusOr<std::optional<int64_t>> SavedClasses(const std::string& weights,
                                                    const std::string& net);

}  // namespace neap::apps
