// Generated tokens follow their rule, and are the same whenever they are read.
#include "neap/core/data/synthetic_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "neap/core/vision/loader.h"

namespace neap {
namespace {

struct Sequence {
  std::vector<int32_t> tokens, labels;
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

Sequence SequenceOf(const Dataset& dataset, int64_t index) {
  const auto count = static_cast<size_t>(dataset.tokens());
  Sequence read = {std::vector<int32_t>(count), std::vector<int32_t>(count)};
  REQUIRE(dataset.ReadTokens(index, nullptr, read.tokens.data(), read.labels.data()).ok());
  return read;
}

TEST_CASE("most synthetic tokens follow the one before by the rule, and labels are the next ones") {
  const auto dataset = SyntheticTokens::Create({.tokens = 4000, .classes = 1009}).value();
  const Sequence read = SequenceOf(*dataset, 3);
  CHECK(std::equal(read.tokens.begin() + 1, read.tokens.end(), read.labels.begin()));
  int follow = 0;
  for (size_t i = 0; i < read.tokens.size(); ++i) {
    CHECK(read.labels[i] >= 0);
    CHECK(read.labels[i] < 1009);
    follow += read.labels[i] == (3 * read.tokens[i] + 1) % 1009 ? 1 : 0;
  }
  CHECK(follow > 3400);  // of 3500 on average
  CHECK(follow < 3600);
}

TEST_CASE("synthetic tokens depend on seed, split and number alone") {
  const auto make = [](Split split, uint64_t seed) {
    return SyntheticTokens::Create({.split = split, .tokens = 8, .seed = seed}).value();
  };
  const auto dataset = make(Split::kTrain, 1);
  CHECK(SequenceOf(*dataset, 5) == SequenceOf(*make(Split::kTrain, 1), 5));
  CHECK(SequenceOf(*dataset, 5) != SequenceOf(*dataset, 6));
  CHECK(SequenceOf(*dataset, 5) != SequenceOf(*make(Split::kTest, 1), 5));
  CHECK(SequenceOf(*dataset, 5) != SequenceOf(*make(Split::kTrain, 2), 5));
}

TEST_CASE("synthetic is of tokens for a network that reads them, and batches have them") {
  const auto dataset =
      OpenDataset("synthetic", {.shape = {{.w = 6}}, .tokens = true, .classes = 11, .size = 20});
  REQUIRE_MESSAGE(dataset.ok(), dataset.status().ToString());
  CHECK((*dataset)->size() == 20);
  CHECK((*dataset)->classes() == 11);
  CHECK((*dataset)->labels() == 6);
  CHECK((*dataset)->extents() == std::vector<int64_t>{6});
  const auto batch = BatchOfStep(**dataset, {.batch = 3, .shuffle = false}, 0);
  REQUIRE_MESSAGE(batch.ok(), batch.status().ToString());
  CHECK(batch->tokens.size() == 18);
  CHECK(batch->images.empty());
  CHECK(std::equal(batch->tokens.begin(), batch->tokens.begin() + 6,
                   SequenceOf(**dataset, 0).tokens.begin()));
}

TEST_CASE("synthetic tokens that cannot be, and reading them as floats, are refused") {
  CHECK(absl::IsInvalidArgument(SyntheticTokens::Create({.tokens = 0}).status()));
  CHECK(absl::IsInvalidArgument(SyntheticTokens::Create({.classes = 0}).status()));
  CHECK(absl::IsInvalidArgument(SyntheticTokens::Create({.size = 0}).status()));
  const auto dataset = SyntheticTokens::Create({.tokens = 2, .size = 1}).value();
  CHECK(absl::IsInvalidArgument(dataset->ReadTokens(1, nullptr, nullptr, nullptr)));
  CHECK(absl::IsInvalidArgument(dataset->Read(0, nullptr, nullptr)));
}

}  // namespace
}  // namespace neap
