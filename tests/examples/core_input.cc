// The examples in the headers of core/vision/, which must compile. See scripts/check_examples.py.
#include <cstdint>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/image_files.h"
#include "neap/core/vision/image_folder.h"
#include "neap/core/vision/loader.h"
#include "neap/core/vision/match_classes.h"
#include "neap/core/vision/permutation.h"

namespace neap::header_examples::input {

// core/vision/dataset.h
absl::Status ReadImage() {
  ASSIGN_OR_RETURN(
      std::unique_ptr<Dataset> digits,
      OpenDataset("idx:examples/data/digits", {.split = Split::kTest, .shape = {{1, 28, 28}}}));
  std::vector<float> pixels(digits->shape().elements());
  int32_t label = 0;
  RETURN_IF_ERROR(digits->Read(0, pixels.data(), &label));
  return absl::OkStatus();
}

// core/vision/image_files.h
absl::Status FindFiles() {
  ASSIGN_OR_RETURN(const std::string folder, SplitFolder("DIR", Split::kTrain));  // DIR/train
  std::vector<std::string> notices;
  ASSIGN_OR_RETURN(const std::vector<std::string> classes, ClassFolders(folder, notices));
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ImageFiles(folder + "/cat", notices));
  return absl::OkStatus();
}

// core/vision/image_folder.h
absl::Status OpenPhotos() {
  ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> photos, ImageFolder::Open("imagenet/train", {}));
  photos->classes();  // 1000
  photos->file(0);    // imagenet/train/n01440764/n01440764_10026.JPEG
  return absl::OkStatus();
}

// core/vision/match_classes.h
absl::Status PrintAbsent(std::unique_ptr<Dataset> dataset) {
  ASSIGN_OR_RETURN(MatchedClasses matched, MatchClasses(std::move(dataset), {"ant", "bee"}));
  std::cout << absl::StrJoin(matched.absent, ", ") << " without images\n";
  return absl::OkStatus();
}

// core/vision/loader.h
absl::Status LoadBatch(const std::unique_ptr<Dataset>& dataset, const Session& session,
                       const std::unique_ptr<Dataset>& large,
                       const std::unique_ptr<Dataset>& small) {
  ASSIGN_OR_RETURN(std::unique_ptr<Loader> loader,
                   Loader::Create(*dataset, {.batch = 64, .first_step = session.step()}));
  ASSIGN_OR_RETURN(Batch batch, loader->Next());
  ASSIGN_OR_RETURN(batch, loader->Next(std::move(batch)));  // its memory is used again
  ASSIGN_OR_RETURN(loader, Loader::InOrder(*dataset, {.count = dataset->size()}, /*batch=*/64));
  ASSIGN_OR_RETURN(loader, Loader::Create({{large.get(), 32}, {small.get(), 64}}, {.seed = 7}));
  return absl::OkStatus();
}

// core/vision/permutation.h
void Permute() {
  Permutation order(/*size=*/50000, /*seed=*/1, /*epoch=*/3);
  order(0);  // the first image of epoch 3
}

}  // namespace neap::header_examples::input
