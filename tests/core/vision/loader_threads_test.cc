// The threads of a loader: how far they read ahead, when they stop, and that their number does not
// show in the batches.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/base/parallel.h"
#include "neap/core/vision/loader.h"
#include "tests/core/vision/counting_images.h"
#include "tests/no_threads.h"

namespace neap {
namespace {

TEST_CASE("reading runs ahead by the queue and no further") {
  const Counting dataset(100);
  const std::unique_ptr<Loader> loader = MustCreate(dataset, {.batch = 10, .queue = 2});
  MustNext(*loader);
  // 1 taken, 2 queued, and 1 being read.
  for (int i = 0; i < 2000 && dataset.reads() < 40; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(dataset.reads() == 40);
}

TEST_CASE("a loader stops at once whether its queue is empty, filling or full") {
  const Counting dataset(100);
  for (int i = 0; i < 50; ++i) {
    const std::unique_ptr<Loader> loader = MustCreate(dataset, {.batch = 10, .queue = 1 + i % 3});
    std::this_thread::sleep_for(std::chrono::microseconds(i * 20));
    for (int j = 0; j < i % 4; ++j) MustNext(*loader);
  }
  const std::unique_ptr<Loader> full = MustCreate(dataset, {.batch = 10, .queue = 1});
  while (dataset.reads() < 20) std::this_thread::yield();
}

// Images so large that several threads read a batch; those from `broken` on fail.
class Large final : public Dataset {
 public:
  explicit Large(int64_t broken = 64) : broken_(broken) {}
  int64_t size() const override { return 64; }
  int64_t classes() const override { return 64; }
  ImageShape shape() const override { return {3, 256, 256}; }
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override {
    if (index >= broken_) return absl::DataLossError(std::to_string(index));
    std::fill_n(pixels, shape().elements(), static_cast<float>(index));
    *label = static_cast<int32_t>(index);
    return absl::OkStatus();
  }

 private:
  int64_t broken_;
};

TEST_CASE("several threads read a large batch; its error is that of its first broken image") {
  const Large dataset;
  const absl::StatusOr<Batch> batch = ReadBatch(dataset, 0, 64);
  REQUIRE(batch.ok());
  const int64_t elements = dataset.shape().elements();
  for (int64_t i = 0; i < 64; ++i) {
    CHECK(batch->labels[static_cast<size_t>(i)] == i);
    const auto begin = batch->images.begin() + i * elements;
    CHECK(std::all_of(begin, begin + elements,
                      [i](float pixel) { return pixel == static_cast<float>(i); }));
  }
  for (const int64_t broken : {0, 5, 33, 63})
    CHECK(ReadBatch(Large(broken), 0, 64).status().message() == std::to_string(broken));
  const testing::NoThreads none;
  CHECK(Same(ReadBatch(dataset, 0, 64).value(), *batch));
}

// Image 3 takes until image 5, of the next batch of 4, has been read, or ten seconds.
class SlowThird final : public Dataset {
 public:
  int64_t size() const override { return 100; }
  int64_t classes() const override { return 100; }
  ImageShape shape() const override { return {1, 1, 1}; }
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override {
    for (int i = 0; index == 3 && i < 10000 && !has_read_next_; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (index == 5) has_read_next_ = true;
    *pixels = static_cast<float>(index);
    *label = index == 3 && !has_read_next_ ? -1 : static_cast<int32_t>(index);
    return absl::OkStatus();
  }

 private:
  mutable std::atomic<bool> has_read_next_ = false;
};

TEST_CASE("a thread begins the next batch while another reads the last image of this one") {
  if (AvailableCores() < 2) {
    MESSAGE("skipped: with one core there is one thread");
    return;
  }
  const SlowThird dataset;
  const std::unique_ptr<Loader> loader =
      MustCreate(dataset, {.batch = 4, .queue = 1, .shuffle = false, .threads = 2});
  CHECK(MustNext(*loader).labels == std::vector<int32_t>{0, 1, 2, 3});
  CHECK(MustNext(*loader).labels == std::vector<int32_t>{4, 5, 6, 7});
}

TEST_CASE("several threads make the same batches, and return the first error after the good ones") {
  const Counting dataset(100, /*broken=*/77);
  const LoaderOptions options = {.batch = 9, .queue = 2, .shuffle = false, .threads = 8};
  for (int round = 0; round < 20; ++round) {
    const std::unique_ptr<Loader> loader = MustCreate(dataset, options);
    Batch batch;
    for (int64_t step = 0; step < 8; ++step) {
      batch = *loader->Next(std::move(batch));
      CHECK(Same(batch, BatchOfStep(dataset, options, step).value()));
    }
    CHECK(loader->Next().status().message() == "file: byte 7: broken");
    CHECK(loader->Next().status().message() == "file: byte 7: broken");
  }
}

// Images for which memory is always refused.
class Enormous final : public Dataset {
 public:
  int64_t size() const override { return 8; }
  int64_t classes() const override { return 2; }
  ImageShape shape() const override { return {1, 2, 3}; }
  absl::Status Read(int64_t, float*, int32_t*) const override { throw std::bad_alloc(); }
};

TEST_CASE("refused memory or a refused thread is an error status") {
  const Enormous dataset;
  CHECK(absl::IsResourceExhausted(BatchOfStep(dataset, {.batch = 2}, 0).status()));
  CHECK(absl::IsResourceExhausted(ReadBatch(dataset, 0, 2).status()));
  const std::unique_ptr<Loader> loader = MustCreate(dataset, {.batch = 2});
  const absl::Status status = loader->Next().status();
  CHECK(absl::IsResourceExhausted(status));
  CHECK(status.message() == "reading an image of 1x2x3: no memory of the host");
  const testing::NoThreads none;
  CHECK(absl::IsResourceExhausted(Loader::Create(dataset, {}).status()));
}

}  // namespace
}  // namespace neap
