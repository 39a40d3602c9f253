// What is checked of the values that the caller gives.
#include "neap/core/program/feeds.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace neap {
namespace {

// The error for one label, 9 of 3 classes, at this place.
std::string ErrorOfLabel(const Shape& shape, int64_t place) {
  std::vector<int32_t> labels(static_cast<size_t>(shape.elements()), kNoLabel);
  CHECK(CheckLabels(labels, shape, 3).ok());
  labels[static_cast<size_t>(place)] = 9;
  const absl::Status status = CheckLabels(labels, shape, 3);
  CHECK(absl::IsInvalidArgument(status));
  return std::string(status.message());
}

TEST_CASE("a label that is not a class is named by its place on any number of axes") {
  const std::string rest = " with 9; the network has 3 classes, from 0";
  CHECK(ErrorOfLabel({5}, 3) == "the batch labels image 3" + rest);
  CHECK(ErrorOfLabel({5, 7}, 3 * 7 + 6) == "the batch labels position 6 of sequence 3" + rest);
  CHECK(ErrorOfLabel({5, 7, 11}, (3 * 7 + 6) * 11 + 10) ==
        "the batch labels the pixel at row 6, column 10 of image 3" + rest);
  CHECK(ErrorOfLabel({5, 2, 7, 11}, ((3 * 2 + 1) * 7 + 6) * 11 + 10) ==
        "the batch labels the voxel at plane 1, row 6, column 10 of volume 3" + rest);
}

TEST_CASE("integers on the device are refused, because they are read from the host's memory") {
  Program program;
  program.net.batch = 2;
  program.tensors.push_back({.name = "tokens", .spec = {.shape = {2, 3}, .dtype = DType::kInt32}});
  program.feeds.push_back({.name = "tokens", .parts = {TensorId(0)}});
  const std::vector<int32_t> ids(6);
  FeedValue value = {.name = "tokens", .integers = ids};
  CHECK(ExamplesIn({value}, program).value() == 2);
  value.on_device = true;
  const absl::Status status = ExamplesIn({value}, program).status();
  CHECK(absl::IsInvalidArgument(status));
  CHECK(status.message() == "feed 'tokens' takes integers, which must be in the host's memory");
}

}  // namespace
}  // namespace neap
