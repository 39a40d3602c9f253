#include "neap/core/vision/match_classes.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace neap {
namespace {

// As many images as classes, of which image i is of class i.
class OneOfEach final : public Dataset {
 public:
  explicit OneOfEach(std::vector<std::string> names) : names_(std::move(names)) {}
  int64_t size() const override { return std::ssize(names_); }
  int64_t classes() const override { return std::ssize(names_); }
  ImageShape shape() const override { return {}; }
  std::vector<std::string> class_names() const override { return names_; }
  std::string file(int64_t index) const override {
    return names_[static_cast<size_t>(index)] + "/0.png";
  }
  absl::Status Read(int64_t index, float* pixels, int32_t* labels) const override {
    *pixels = static_cast<float>(index);
    *labels = static_cast<int32_t>(index);
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> names_;
};

std::vector<int32_t> LabelsOf(const Dataset& dataset) {
  std::vector<int32_t> labels(static_cast<size_t>(dataset.size()));
  float pixel = 0;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    CHECK(dataset.Read(i, &pixel, &labels[static_cast<size_t>(i)]).ok());
    CHECK(pixel == static_cast<float>(i));
  }
  return labels;
}

TEST_CASE("labels are those of the network's classes with the same names, whichever are there") {
  const std::vector<std::string> classes = {"ant", "bee", "cat", "dog"};
  const auto matched = MatchClasses(
      std::make_unique<OneOfEach>(std::vector<std::string>{"ant", "cat", "dog"}), classes);
  REQUIRE(matched.ok());
  CHECK(LabelsOf(*matched->dataset) == std::vector<int32_t>{0, 2, 3});
  CHECK(matched->dataset->classes() == 4);
  CHECK(matched->dataset->class_names() == classes);
  CHECK(matched->dataset->file(1) == "cat/0.png");
  CHECK(matched->absent == std::vector<std::string>{"bee"});
  // A network that numbers them in another order.
  const auto turned =
      MatchClasses(std::make_unique<OneOfEach>(classes), {"dog", "cat", "bee", "ant"});
  REQUIRE(turned.ok());
  CHECK(LabelsOf(*turned->dataset) == std::vector<int32_t>{3, 2, 1, 0});
  CHECK(turned->absent.empty());
}

TEST_CASE("without names on either side, numbers stay as they are") {
  const auto unnamed =
      MatchClasses(std::make_unique<OneOfEach>(std::vector<std::string>{"b", "c"}), {});
  REQUIRE(unnamed.ok());
  CHECK(LabelsOf(*unnamed->dataset) == std::vector<int32_t>{0, 1});
  CHECK(unnamed->absent.empty());
}

TEST_CASE("classes that the network does not know are refused by their names") {
  const auto open = [](const std::vector<std::string>& names) {
    const auto status = MatchClasses(std::make_unique<OneOfEach>(names), {"ant", "bee"}).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(open({"ant", "wasp"}) ==
        "the network does not know the class 'wasp'; it knows 'ant', 'bee'");
  CHECK(open({"cat", "dog"}) ==
        "the network does not know the classes 'cat', 'dog'; it knows 'ant', 'bee'");
}

}  // namespace
}  // namespace neap
