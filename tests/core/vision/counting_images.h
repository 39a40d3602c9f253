// A dataset that counts how often it is read, and loaders that must succeed.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "neap/core/vision/loader.h"

namespace neap {

// Image i is 1x2x3 pixels i, i + 0.1, ...; its label is i. Counts how often it is read, and fails
// at one index.
class Counting final : public Dataset {
 public:
  explicit Counting(int64_t size, int64_t broken = -1) : size_(size), broken_(broken) {}
  int64_t size() const override { return size_; }
  int64_t classes() const override { return size_; }
  ImageShape shape() const override { return {1, 2, 3}; }
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override {
    ++reads_;
    if (index == broken_) return absl::DataLossError("file: byte 7: broken");
    for (int i = 0; i < 6; ++i)
      pixels[i] = static_cast<float>(index) + 0.1F * static_cast<float>(i);
    *label = static_cast<int32_t>(index);
    return absl::OkStatus();
  }
  int64_t reads() const { return reads_; }

 private:
  int64_t size_;
  int64_t broken_;
  mutable std::atomic<int64_t> reads_ = 0;
};

inline std::unique_ptr<Loader> MustCreate(const Dataset& dataset, LoaderOptions options) {
  absl::StatusOr<std::unique_ptr<Loader>> loader = Loader::Create(dataset, options);
  REQUIRE(loader.ok());
  return *std::move(loader);
}

inline Batch MustNext(Loader& loader) {
  absl::StatusOr<Batch> batch = loader.Next();
  REQUIRE(batch.ok());
  return *std::move(batch);
}

inline bool Same(const Batch& a, const Batch& b) {
  return a.size == b.size && a.labels == b.labels && a.images == b.images;
}

}  // namespace neap
