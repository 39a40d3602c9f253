// Batches of tokens as the feeds of a program that reads integers.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/core/vision/batch_feeds.h"

namespace neap {
namespace {

// Two sequences of three of five tokens; what a network makes of them does not matter here.
Program TokenProgram() {
  Program program;
  program.net = {.name = "text", .batch = 2};
  program.tensors = {
      {.name = "ids", .spec = {.shape = {2, 3}, .dtype = DType::kInt32}},
      {.name = "labels", .role = Role::kLabel, .spec = {.shape = {2, 3}, .dtype = DType::kInt32}},
      {.name = "logits", .spec = {.shape = {2, 5, 3}}}};
  program.feeds = {{.name = "ids", .parts = {TensorId(0)}},
                   {.name = "labels", .parts = {TensorId(1)}}};
  const Port logits = {.name = "logits", .parts = {TensorId(2)}};
  program.losses = {
      {.name = "loss", .target = "labels", .classes = 5, .logits = logits, .predictions = logits}};
  return program;
}

std::string ErrorWith(const Batch& batch) {
  const absl::Status status = BatchFeeds::Of(batch, TokenProgram()).status();
  CHECK(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST_CASE("tokens are the integers of the input, and their labels those of the target") {
  const Program program = TokenProgram();
  const Batch batch = {.labels = {1, 2, 3, 4, 0, 1}, .size = 2, .tokens = {0, 1, 2, 3, 4, 0}};
  CHECK(ImagePortsOf(program)->reads_tokens);
  CHECK(InputsIn(batch) == 6);
  const auto given = BatchFeeds::Of(batch, program);
  REQUIRE_MESSAGE(given.ok(), given.status().ToString());
  REQUIRE(given->feeds().size() == 2);
  CHECK(given->feeds()[0].name == "ids");
  CHECK(given->feeds()[0].integers == absl::MakeConstSpan(batch.tokens));
  CHECK(given->feeds()[0].floats.empty());
  CHECK(given->feeds()[1].integers == absl::MakeConstSpan(batch.labels));
  CHECK(ExamplesIn(given->feeds(), program).value() == 2);
}

TEST_CASE("images for a network of tokens, and batches of another size, are refused") {
  CHECK(ErrorWith({.images = std::vector<float>(6), .labels = std::vector<int32_t>(6)}) ==
        "the network reads integers as 'ids'; the batch has images, floats");
  CHECK(ErrorWith({.labels = std::vector<int32_t>(6), .tokens = std::vector<int32_t>(5)}) ==
        "the batch has 6 labels and 5 tokens; the network's input is 2x3, its labels 2x3");
  CHECK(absl::IsInvalidArgument(
      BatchFeeds::OfImages(std::vector<float>(6), TokenProgram()).status()));
  Program images = TokenProgram();
  images.tensors[0].spec.dtype = DType::kFp32;
  const Batch tokens = {.labels = std::vector<int32_t>(6), .tokens = std::vector<int32_t>(6)};
  CHECK(BatchFeeds::Of(tokens, images).status().message() ==
        "the network reads floats as 'ids'; the batch has tokens, integers");
}

}  // namespace
}  // namespace neap
