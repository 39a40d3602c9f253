#include "neap/core/vision/loader_steps.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/permutation.h"

namespace neap {
namespace {

constexpr uint64_t kSeedOfRounds = 0x9e3779b97f4a7c15;

int64_t WholeBatch(const LoaderOptions& options) {
  return options.whole_batch == 0 ? options.batch : options.whole_batch;
}

// The images of a batch of the size, of this rank and of all of them.
int64_t OwnBatch(const LoaderSize& size, const LoaderOptions& options) {
  return size.batch == 0 ? options.batch : size.batch;
}
int64_t WholeBatch(const LoaderSize& size, const LoaderOptions& options) {
  return size.batch == 0 ? WholeBatch(options) : size.batch;
}

// The images of a round, in which each size has a step.
int64_t ImagesOfRound(const std::vector<LoaderSize>& sizes, const LoaderOptions& options) {
  int64_t images = 0;
  for (const LoaderSize& size : sizes) images += WholeBatch(size, options);
  return images;
}

absl::Status CheckDataset(const Dataset& dataset, const LoaderOptions& options) {
  const ImageShape shape = dataset.shape();
  if (options.shift < 0 || options.shift >= std::min(shape.h, shape.w)) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader: shift ", options.shift, " for images of ", ToString(shape)));
  }
  if (options.crop && (!dataset.has_views() || options.shift > 0 || options.flip)) {
    return absl::InvalidArgumentError(
        "loader: random crops are for datasets that have them, and exclude shift and flip");
  }
  const bool is_fixed = dataset.labels() > 1 || dataset.tokens() > 0;
  if (is_fixed && (options.shift > 0 || options.flip))
    return absl::InvalidArgumentError(
        "loader: images with labelled pixels, and tokens, cannot be moved");
  return absl::OkStatus();
}

absl::Status CheckSizes(const std::vector<LoaderSize>& sizes, const LoaderOptions& options) {
  if (sizes.empty()) return absl::InvalidArgumentError("loader: no dataset");
  constexpr size_t kAxesOfImages = 3;
  if (sizes.size() > 1 && sizes[0].dataset->extents().size() != kAxesOfImages)
    return absl::InvalidArgumentError("loader: only images have several sizes");
  int64_t images = 0;
  for (const LoaderSize& size : sizes) {
    RETURN_IF_ERROR(CheckDataset(*size.dataset, options));
    if (size.dataset->size() != sizes[0].dataset->size()) {
      return absl::InvalidArgumentError(absl::StrCat("loader: the sizes have ",
                                                     sizes[0].dataset->size(), " and ",
                                                     size.dataset->size(), " images"));
    }
    const bool is_of_ranks = options.whole_batch != 0 && options.whole_batch != options.batch;
    if (size.batch < 0 || (size.batch > 0 && is_of_ranks)) {
      return absl::InvalidArgumentError(
          absl::StrCat("loader: a batch of ", size.batch, " for a size",
                       is_of_ranks ? "; ranks have the same batch for all sizes" : ""));
    }
    if (__builtin_add_overflow(images, WholeBatch(size, options), &images))
      return absl::InvalidArgumentError("loader: the batches of all sizes are too large");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLoader(const std::vector<LoaderSize>& sizes, const LoaderOptions& options,
                         int64_t step) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  if (options.batch < 1 || options.queue < 1 || step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader: batch ", options.batch, ", queue ", options.queue, ", step ", step));
  }
  if (options.first_image < 0 || options.first_image > WholeBatch(options) - options.batch) {
    return absl::InvalidArgumentError(absl::StrCat("loader: images from ", options.first_image,
                                                   " to ", options.first_image + options.batch - 1,
                                                   " of a batch of ", WholeBatch(options)));
  }
  if (options.threads < 0 || options.color_jitter < 0 || options.color_jitter > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader: threads ", options.threads, ", color_jitter ", options.color_jitter));
  }
  RETURN_IF_ERROR(CheckSizes(sizes, options));
  if (step / std::ssize(sizes) >= kMax / ImagesOfRound(sizes, options))
    return absl::InvalidArgumentError(
        absl::StrCat("loader: batch ", options.batch, ", step ", step));
  return absl::OkStatus();
}

StepImages ImagesOf(const std::vector<LoaderSize>& sizes, const LoaderOptions& options,
                    int64_t step) {
  const int64_t steps = std::ssize(sizes), round = step / steps;
  const Permutation order(steps, options.seed ^ kSeedOfRounds, static_cast<uint64_t>(round));
  const auto size_of = [&](int64_t turn) { return sizes[static_cast<size_t>(order(turn))]; };
  int64_t first = round * ImagesOfRound(sizes, options) + options.first_image;
  for (int64_t turn = 0; turn < step % steps; ++turn) first += WholeBatch(size_of(turn), options);
  const LoaderSize size = size_of(step % steps);
  return {size.dataset, OwnBatch(size, options), first};
}

}  // namespace neap
