#include "neap/core/vision/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/core/vision/counting_images.h"

namespace neap {
namespace {

TEST_CASE("every image comes once an epoch, even if a batch spans two epochs") {
  const Counting dataset(10);
  const std::unique_ptr<Loader> loader = MustCreate(dataset, {.batch = 4});
  std::vector<int32_t> labels;
  for (int i = 0; i < 5; ++i) {
    const Batch batch = MustNext(*loader);
    REQUIRE(batch.size == 4);
    REQUIRE(batch.images.size() == 24);
    labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    for (size_t j = 0; j < 4; ++j) {
      CHECK(batch.images[j * 6] == static_cast<float>(batch.labels[j]));
    }
  }
  const std::set<int32_t> first(labels.begin(), labels.begin() + 10);
  const std::set<int32_t> second(labels.begin() + 10, labels.end());
  CHECK(first.size() == 10);
  CHECK(second.size() == 10);
  CHECK(!std::equal(labels.begin(), labels.begin() + 10, labels.begin() + 10));
}

TEST_CASE("a batch may be larger than the dataset") {
  const Counting dataset(3);
  const Batch batch = MustNext(*MustCreate(dataset, {.batch = 9}));
  std::map<int32_t, int> counts;
  for (int32_t label : batch.labels) ++counts[label];
  CHECK(counts == std::map<int32_t, int>{{0, 3}, {1, 3}, {2, 3}});
}

TEST_CASE("a run that starts at step k gets the same batches as a run that began at 0") {
  const Counting dataset(37);
  const LoaderOptions options = {.batch = 8, .seed = 9, .shift = 1, .flip = true};
  const std::unique_ptr<Loader> whole = MustCreate(dataset, options);
  LoaderOptions later = options;
  later.first_step = 11;
  const std::unique_ptr<Loader> resumed = MustCreate(dataset, later);
  for (int step = 0; step < 11; ++step) MustNext(*whole);
  for (int step = 11; step < 20; ++step) {
    const Batch batch = MustNext(*whole);
    CHECK(Same(batch, MustNext(*resumed)));
    CHECK(Same(batch, *BatchOfStep(dataset, options, step)));
  }
  LoaderOptions other = options;
  other.seed = 10;
  CHECK(!Same(*BatchOfStep(dataset, options, 3), *BatchOfStep(dataset, other, 3)));
}

TEST_CASE("without shuffling images come in order") {
  const Counting dataset(5);
  const std::unique_ptr<Loader> loader = MustCreate(dataset, {.batch = 3, .shuffle = false});
  CHECK(MustNext(*loader).labels == std::vector<int32_t>{0, 1, 2});
  CHECK(MustNext(*loader).labels == std::vector<int32_t>{3, 4, 0});
}

TEST_CASE("augmented images differ from plain ones, and their labels do not") {
  const Counting dataset(50);
  const LoaderOptions plain = {.batch = 50};
  LoaderOptions augmented = plain;
  augmented.shift = 1;
  augmented.flip = true;
  const absl::StatusOr<Batch> a = BatchOfStep(dataset, plain, 0);
  const absl::StatusOr<Batch> b = BatchOfStep(dataset, augmented, 0);
  REQUIRE((a.ok() && b.ok()));
  CHECK(a->labels == b->labels);
  CHECK(a->images != b->images);
}

TEST_CASE("a broken image is an error after the good batches, and it is returned from then on") {
  const Counting dataset(100, /*broken=*/25);
  const std::unique_ptr<Loader> loader = MustCreate(dataset, {.batch = 10, .shuffle = false});
  CHECK(MustNext(*loader).labels.front() == 0);
  CHECK(MustNext(*loader).labels.front() == 10);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = loader->Next().status();
    CHECK(absl::IsDataLoss(status));
    CHECK(status.message() == "file: byte 7: broken");
  }
}

TEST_CASE("the memory of a used batch is used again, for the same batches") {
  const Counting dataset(100);
  const std::unique_ptr<Loader> fresh = MustCreate(dataset, {.batch = 10});
  const std::unique_ptr<Loader> reusing = MustCreate(dataset, {.batch = 10, .queue = 1});
  std::set<const float*> places;
  Batch used;
  for (int i = 0; i < 20; ++i) {
    absl::StatusOr<Batch> batch = reusing->Next(std::move(used));
    REQUIRE(batch.ok());
    CHECK(Same(*batch, MustNext(*fresh)));
    places.insert(batch->images.data());
    used = *std::move(batch);
  }
  CHECK(places.size() <= 4);  // one in use, one queued, one being read, and one given back
  Batch small = {.images = {1}, .labels = {0}, .size = 1};  // another size is no obstacle
  small.targets = {1};
  small.borrowed = small.images;
  small.on_device = true;
  for (int i = 0; i < 4; ++i) {
    const absl::StatusOr<Batch> batch = reusing->Next(small);
    CHECK(Same(*batch, MustNext(*fresh)));
    CHECK(batch->targets.empty());
    CHECK(batch->borrowed.empty());
    CHECK(!batch->on_device);
  }
}

TEST_CASE("options out of range are refused") {
  const Counting dataset(100);
  constexpr int64_t kHuge = int64_t{1} << 62;
  for (const LoaderOptions& bad :
       {LoaderOptions{.batch = 0}, LoaderOptions{.queue = 0}, LoaderOptions{.first_step = -1},
        LoaderOptions{.shift = -1}, LoaderOptions{.shift = 2},
        LoaderOptions{.batch = 4, .first_step = kHuge}}) {
    CHECK(absl::IsInvalidArgument(Loader::Create(dataset, bad).status()));
  }
  CHECK(absl::IsResourceExhausted(BatchOfStep(dataset, {.batch = kHuge}, 0).status()));
}

TEST_CASE("a loader in order gives each image of its range once, and then ends") {
  const Counting dataset(50);
  for (const int64_t threads : {1, 4}) {
    const std::unique_ptr<Loader> loader = *Loader::InOrder(dataset, {7, 23}, 10, threads);
    Batch batch;
    for (int64_t first = 7; first < 30; first += 10) {
      batch = *loader->Next(std::move(batch));
      CHECK(Same(batch, *ReadBatch(dataset, first, std::min<int64_t>(10, 30 - first))));
    }
    CHECK(absl::IsOutOfRange(loader->Next().status()));
    CHECK(absl::IsOutOfRange(loader->Next().status()));
  }
  CHECK(MustNext(**Loader::InOrder(dataset, {49, 1}, 10)).labels == std::vector<int32_t>{49});
  for (const ImageRange& bad : {ImageRange{0, 0}, {-1, 5}, {48, 3}, {0, 51}})
    CHECK(absl::IsInvalidArgument(Loader::InOrder(dataset, bad, 10).status()));
  CHECK(absl::IsInvalidArgument(Loader::InOrder(dataset, {0, 5}, 0).status()));
  const Counting broken(50, /*broken=*/25);
  const std::unique_ptr<Loader> loader = *Loader::InOrder(broken, {20, 30}, 3, 4);
  CHECK(MustNext(*loader).labels == std::vector<int32_t>{20, 21, 22});
  for (int i = 0; i < 2; ++i) CHECK(loader->Next().status().message() == "file: byte 7: broken");
}

TEST_CASE("evaluation reads each image once, fewer in the last batch") {
  const Counting dataset(10);
  absl::StatusOr<Batch> batch = ReadBatch(dataset, 4, 4);
  REQUIRE(batch.ok());
  CHECK(batch->labels == std::vector<int32_t>{4, 5, 6, 7});
  batch = ReadBatch(dataset, 8, 4);
  REQUIRE(batch.ok());
  CHECK(batch->size == 2);
  CHECK(batch->images.size() == 12);
  CHECK(batch->labels == std::vector<int32_t>{8, 9});
  CHECK(absl::IsInvalidArgument(ReadBatch(dataset, 10, 1).status()));
  CHECK(absl::IsInvalidArgument(ReadBatch(dataset, 0, 0).status()));
  CHECK(absl::IsInvalidArgument(ReadBatch(dataset, -1, 1).status()));
}

// Throws where its sixth image should be.
class Throwing final : public Dataset {
 public:
  int64_t size() const override { return 8; }
  int64_t classes() const override { return 2; }
  ImageShape shape() const override { return {1, 2, 3}; }
  absl::Status Read(int64_t index, float* pixels, int32_t* labels) const override {
    if (index == 5) throw std::runtime_error("image 5");
    std::fill_n(pixels, 6, 0.0F);
    *labels = 0;
    return absl::OkStatus();
  }
};

TEST_CASE("a data set of one's own that throws is an error status") {
  const Throwing dataset;
  const absl::Status expected =
      absl::InternalError("reading an image of 1x2x3 has thrown: image 5");
  CHECK(ReadBatch(dataset, 4, 4).status() == expected);
  CHECK(ReadBatch(dataset, 0, 4).ok());
  const std::unique_ptr<Loader> loader = MustCreate(dataset, {.batch = 4, .shuffle = false});
  CHECK(loader->Next().ok());
  CHECK(loader->Next().status() == expected);
}

TEST_CASE("ranks read parts of the batches that one rank would read, whatever their number") {
  const Counting dataset(50);
  LoaderOptions whole = {.batch = 12, .seed = 3};
  for (const std::vector<int64_t>& split : {std::vector<int64_t>{6, 6}, {5, 1, 6}}) {
    for (int64_t step = 0; step < 5; ++step) {
      const Batch expected = BatchOfStep(dataset, whole, step).value();
      std::vector<int32_t> labels;
      for (size_t rank = 0; rank < split.size(); ++rank) {
        LoaderOptions part = whole;
        part.batch = split[rank];
        part.whole_batch = 12;
        part.first_image = std::accumulate(split.begin(), split.begin() + rank, int64_t{0});
        const Batch batch = BatchOfStep(dataset, part, step).value();
        labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
      }
      CHECK(labels == expected.labels);
    }
  }
  const LoaderOptions outside = {.batch = 6, .whole_batch = 12, .first_image = 7};
  CHECK(BatchOfStep(dataset, outside, 0).status() ==
        absl::InvalidArgumentError("loader: images from 7 to 12 of a batch of 12"));
}

}  // namespace
}  // namespace neap
