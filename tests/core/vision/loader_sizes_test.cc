// Loaders of several sizes: what each step reads, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "neap/core/vision/loader.h"

namespace neap {
namespace {

// Images of one channel that hold their number in every pixel, which is their label, too.
class Numbered final : public Dataset {
 public:
  Numbered(int64_t images, int64_t height, int64_t width)
      : images_(images), height_(height), width_(width) {}
  int64_t size() const override { return images_; }
  int64_t classes() const override { return images_; }
  ImageShape shape() const override { return {1, height_, width_}; }
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override {
    std::fill_n(pixels, height_ * width_, static_cast<float>(index));
    *label = static_cast<int32_t>(index);
    return absl::OkStatus();
  }

 private:
  const int64_t images_, height_, width_;
};

constexpr int64_t kNumberedImages = 50;
const Numbered kSmall(kNumberedImages, 2, 3), kMiddle(kNumberedImages, 4, 3),
    kLarge(kNumberedImages, 5, 6);
const std::vector<LoaderSize> kLoaderSizes = {{&kSmall, 7}, {&kMiddle, 0}, {&kLarge, 2}};
constexpr int64_t kUsualBatch = 5;  // of the size that states none

int64_t BatchOfHeight(int64_t height) { return height == 2 ? 7 : height == 4 ? kUsualBatch : 2; }

TEST_CASE("in every round each size has one batch of its own, in orders that differ") {
  const auto loader = Loader::Create(kLoaderSizes, {.batch = kUsualBatch, .seed = 3}).value();
  std::set<std::vector<int64_t>> orders;
  for (int round = 0; round < 12; ++round) {
    std::vector<int64_t> order;
    for (int turn = 0; turn < 3; ++turn) {
      const Batch batch = loader->Next().value();
      order.push_back(batch.height);
      CHECK(batch.size == BatchOfHeight(batch.height));
      CHECK(std::ssize(batch.images) == batch.size * batch.height * batch.width);
      CHECK(std::ssize(batch.labels) == batch.size);
      for (size_t i = 0; i < batch.images.size(); ++i) {
        const size_t image = i / static_cast<size_t>(batch.height * batch.width);
        REQUIRE(batch.images[i] == static_cast<float>(batch.labels[image]));
      }
    }
    CHECK(std::set<int64_t>(order.begin(), order.end()) == std::set<int64_t>{2, 4, 5});
    orders.insert(order);
  }
  CHECK(orders.size() > 1);
}

TEST_CASE("each image comes once in an epoch, whatever the sizes of the steps") {
  for (const bool shuffle : {false, true}) {
    const auto loader =
        Loader::Create(kLoaderSizes, {.batch = kUsualBatch, .shuffle = shuffle}).value();
    std::vector<int32_t> labels;
    while (std::ssize(labels) < 6 * kNumberedImages) {
      const Batch batch = loader->Next().value();
      labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    }
    for (int epoch = 0; epoch < 6; ++epoch) {
      const auto begin = labels.begin() + epoch * kNumberedImages;
      CHECK(std::set<int32_t>(begin, begin + kNumberedImages).size() == kNumberedImages);
    }
  }
}

TEST_CASE("the batch of a step depends on the options and the step alone") {
  const LoaderOptions options = {.batch = kUsualBatch, .seed = 11, .shift = 1, .flip = true};
  for (const int64_t threads : {1, 3}) {
    LoaderOptions resumed = options;
    resumed.first_step = 4;
    resumed.threads = threads;
    const auto loader = Loader::Create(kLoaderSizes, resumed).value();
    Batch used;
    for (int64_t step = 4; step < 20; ++step) {
      const Batch expected = BatchOfStep(kLoaderSizes, options, step).value();
      used = loader->Next(std::move(used)).value();
      CHECK(used.images == expected.images);
      CHECK(used.labels == expected.labels);
      CHECK(used.height == expected.height);
      CHECK(used.width == expected.width);
    }
  }
}

TEST_CASE("ranks read parts of the same batches") {
  const std::vector<LoaderSize> sizes = {{&kSmall}, {&kMiddle}, {&kLarge}};
  for (int64_t step = 0; step < 9; ++step) {
    const Batch whole = BatchOfStep(sizes, {.batch = 6}, step).value();
    std::vector<int32_t> labels;
    for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {4, 2}}) {
      const Batch part =
          BatchOfStep(sizes, {.batch = count, .whole_batch = 6, .first_image = first}, step)
              .value();
      CHECK(part.height == whole.height);
      labels.insert(labels.end(), part.labels.begin(), part.labels.end());
    }
    CHECK(labels == whole.labels);
  }
}

TEST_CASE("a loader of one size states none") {
  const Batch batch = BatchOfStep(std::vector<LoaderSize>{{&kLarge, 3}}, {}, 0).value();
  CHECK(batch.height == 0);
  CHECK(batch.size == 3);
}

TEST_CASE("sizes that do not fit together are refused") {
  const Numbered other(kNumberedImages + 1, 2, 2);
  const auto refused = [](std::vector<LoaderSize> sizes, LoaderOptions options = {}) {
    return Loader::Create(std::move(sizes), options).status();
  };
  CHECK(absl::IsInvalidArgument(refused({})));
  CHECK(refused({{&kSmall}, {&other}}).message() == "loader: the sizes have 50 and 51 images");
  CHECK(absl::IsInvalidArgument(refused({{&kSmall, -1}})));
  CHECK(absl::IsInvalidArgument(refused({{&kLarge}, {&kSmall}}, {.shift = 2})));
  CHECK(refused({{&kSmall, 4}}, {.batch = 2, .whole_batch = 4}).message() ==
        "loader: a batch of 4 for a size; ranks have the same batch for all sizes");
}

}  // namespace
}  // namespace neap
