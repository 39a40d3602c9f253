// Images generated from a seed: a coarse pattern for each class, and noise for each image. Nothing
// is stored.
//
// They serve to try a network's size and speed, and to see that it learns, without a dataset. They
// have any shape and number, and each is a pure function of (seed, split, index). Image i is of
// class i mod classes. If pixels are labelled, an image consists of 8 x 8 fields, each of a random
// class and in that class's colour. Patterns and colours are the same in both splits, so what is
// learnt from one holds for the other. The planes of a volume are alike but for the noise.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/vision/dataset.h"

namespace neap {

struct SyntheticOptions {
  Split split = Split::kTrain;
  ImageShape shape = {.c = 3, .h = 32, .w = 32};
  int64_t classes = 10;
  int64_t size = 50'000;
  bool label_pixels = false;
  uint64_t seed = 1;
};

class SyntheticDataset final : public Dataset {
 public:
  // Errors: INVALID_ARGUMENT for extents, classes or size below 1, or more classes than an int32
  // counts.
  static absl::StatusOr<std::unique_ptr<SyntheticDataset>> Create(SyntheticOptions options);
  int64_t size() const override { return options_.size; }
  int64_t classes() const override { return options_.classes; }
  ImageShape shape() const override { return options_.shape; }
  int64_t labels() const override { return options_.label_pixels ? options_.shape.positions() : 1; }
  std::vector<int64_t> extents() const override {
    const ImageShape& shape = options_.shape;
    if (shape.d == 1) return {shape.c, shape.h, shape.w};
    return {shape.c, shape.d, shape.h, shape.w};
  }
  absl::Status Read(int64_t index, float* pixels, int32_t* labels) const override;

 private:
  explicit SyntheticDataset(SyntheticOptions options) : options_(options) {}
  void DrawPattern(int64_t class_index, float* pixels) const;
  void DrawFields(int64_t index, float* pixels, int32_t* labels) const;
  uint64_t StreamOf(int64_t index) const;  // the stream of an image's random numbers
  void AddNoise(int64_t index, float* pixels) const;

  SyntheticOptions options_;
};

}  // namespace neap
