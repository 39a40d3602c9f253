// The images of a dataset, with the class numbers that a network was trained with.
//
// Datasets number the classes that they find. A folder of images that lacks the second of four
// classes calls the third and the fourth 1 and 2, and a network that gets all of it right would be
// told that it gets most of it wrong. Names do not change:
//
//   classes of the network   ant 0   bee 1   cat 2   dog 3
//   folders of the dataset   ant 0           cat 1   dog 2   ->   labels 0, 2, 3
//
//   ASSIGN_OR_RETURN(MatchedClasses matched, MatchClasses(std::move(dataset), {"ant", "bee"}));
//   std::cout << absl::StrJoin(matched.absent, ", ") << " without images\n";
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/vision/dataset.h"

namespace neap {

struct MatchedClasses {
  std::unique_ptr<Dataset> dataset;
  std::vector<std::string> absent;  // classes of which the dataset has no images
};

// The same dataset if it, or the network, has no names for its classes. Errors: INVALID_ARGUMENT
// naming the classes of the dataset that are not among `classes`.
absl::StatusOr<MatchedClasses> MatchClasses(std::unique_ptr<Dataset> dataset,
                                            const std::vector<std::string>& classes);

}  // namespace neap
