#include "neap/core/vision/match_classes.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/feeds.h"

namespace neap {
namespace {

class MatchedDataset final : public Dataset {
 public:
  MatchedDataset(std::unique_ptr<Dataset> dataset, std::vector<std::string> classes,
                 std::vector<int32_t> numbers)
      : dataset_(std::move(dataset)), classes_(std::move(classes)), numbers_(std::move(numbers)) {}

  int64_t size() const override { return dataset_->size(); }
  int64_t classes() const override { return std::ssize(classes_); }
  ImageShape shape() const override { return dataset_->shape(); }
  std::vector<std::string> class_names() const override { return classes_; }
  std::string file(int64_t index) const override { return dataset_->file(index); }
  int64_t labels() const override { return dataset_->labels(); }
  std::vector<int64_t> extents() const override { return dataset_->extents(); }
  bool decodes() const override { return dataset_->decodes(); }
  bool has_views() const override { return dataset_->has_views(); }
  int64_t tokens() const override { return dataset_->tokens(); }
  absl::Status Read(int64_t index, float* pixels, int32_t* labels) const override {
    RETURN_IF_ERROR(dataset_->Read(index, pixels, labels));
    Renumber(labels);
    return absl::OkStatus();
  }
  absl::Status ReadView(int64_t index, const RandomView& view, float* pixels,
                        int32_t* labels) const override {
    RETURN_IF_ERROR(dataset_->ReadView(index, view, pixels, labels));
    Renumber(labels);
    return absl::OkStatus();
  }

  absl::Status ReadTokens(int64_t index, const RandomView* view, int32_t* tokens,
                          int32_t* labels) const override {
    RETURN_IF_ERROR(dataset_->ReadTokens(index, view, tokens, labels));
    Renumber(labels);
    return absl::OkStatus();
  }

 private:
  void Renumber(int32_t* labels) const {
    for (int64_t i = 0; i < dataset_->labels(); ++i) {
      if (labels[i] != kNoLabel) labels[i] = numbers_[static_cast<size_t>(labels[i])];
    }
  }

  std::unique_ptr<Dataset> dataset_;
  std::vector<std::string> classes_;
  std::vector<int32_t> numbers_;  // by those of the dataset
};

// "'ant', 'bee', 'cat' and 97 more"
std::string ListOf(const std::vector<std::string>& names) {
  constexpr int64_t kMaxListed = 10;
  const int64_t listed = std::min(std::ssize(names), kMaxListed);
  std::string text =
      absl::StrCat("'", absl::StrJoin(names.begin(), names.begin() + listed, "', '"), "'");
  if (std::ssize(names) > listed)
    absl::StrAppend(&text, " and ", std::ssize(names) - listed, " more");
  return text;
}

}  // namespace

absl::StatusOr<MatchedClasses> MatchClasses(std::unique_ptr<Dataset> dataset,
                                            const std::vector<std::string>& classes) {
  const std::vector<std::string> own = dataset->class_names();
  if (own.empty() || classes.empty() || own == classes)
    return MatchedClasses{std::move(dataset), {}};
  const auto is_in = [](const std::vector<std::string>& names) {
    return [&names](const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
  };
  std::vector<std::string> unknown;
  std::remove_copy_if(own.begin(), own.end(), std::back_inserter(unknown), is_in(classes));
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the network does not know the class", unknown.size() > 1 ? "es " : " ",
                     ListOf(unknown), "; it knows ", ListOf(classes)));
  }
  MatchedClasses matched;
  std::remove_copy_if(classes.begin(), classes.end(), std::back_inserter(matched.absent),
                      is_in(own));
  std::vector<int32_t> numbers;
  for (const std::string& name : own) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    numbers.push_back(static_cast<int32_t>(found - classes.begin()));
  }
  matched.dataset =
      std::make_unique<MatchedDataset>(std::move(dataset), classes, std::move(numbers));
  return matched;
}

}  // namespace neap
