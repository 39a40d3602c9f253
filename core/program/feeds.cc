#include "neap/core/program/feeds.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/label_grid.h"

namespace neap {
namespace {

int64_t ValuesOf(const FeedValue& value) {
  return std::ssize(value.floats) + std::ssize(value.integers);
}

std::string NamesOf(const std::vector<Port>& feeds) {
  return absl::StrJoin(feeds, ", ",
                       [](std::string* text, const Port& feed) { text->append(feed.name); });
}

// Each value is that of another of the ports; `what` they are is for messages.
absl::Status CheckNames(const Feeds& values, const std::vector<Port>& ports,
                        const std::string& what) {
  for (const FeedValue& value : values) {
    const auto has_name = [&](const auto& other) { return other.name == value.name; };
    if (std::count_if(values.begin(), values.end(), has_name) > 1)
      return absl::InvalidArgumentError(absl::StrCat(what, " '", value.name, "' is given twice"));
    if (std::any_of(ports.begin(), ports.end(), has_name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the network has no ", what, " '", value.name, "'; it has: ", NamesOf(ports)));
  }
  return absl::OkStatus();
}

// "image 3", "position 5 of sequence 3", "the pixel at row 1, column 2 of image 3", or "the voxel
// at plane 0, row 1, column 2 of volume 3".
std::string PlaceOf(int64_t index, const Shape& labels) {
  if (labels.rank() == 1) return absl::StrCat("image ", index);
  const int64_t width = labels[labels.rank() - 1], column = index % width;
  if (labels.rank() == 2) return absl::StrCat("position ", column, " of sequence ", index / width);
  const int64_t height = labels[labels.rank() - 2], row = index / width % height;
  const int64_t plane = index / width / height;
  const std::string place = absl::StrCat("row ", row, ", column ", column, " of ");
  if (labels.rank() == 3) return absl::StrCat("the pixel at ", place, "image ", plane);
  return absl::StrCat("the voxel at plane ", plane % labels[1], ", ", place, "volume ",
                      plane / labels[1]);
}

// The labels with which losses compare their predictions.
absl::Status CheckClasses(const Feeds& feeds, const Program& program) {
  for (const LossPort& loss : program.losses) {
    const FeedValue* const target = FindFeed(feeds, loss.target);
    if (target == nullptr || target->integers.empty()) continue;
    const Shape labels = program.SpecOf(*program.FeedCalled(loss.target)).shape;
    RETURN_IF_ERROR(CheckLabels(target->integers, labels, loss.classes));
  }
  return absl::OkStatus();
}

// The integers that layers look up.
absl::Status CheckIndices(const Feeds& feeds, const Program& program) {
  for (const Port& feed : program.feeds) {
    const FeedValue* const value = FindFeed(feeds, feed.name);
    if (value == nullptr || !feed.index_count.has_value()) continue;
    const int64_t count = *feed.index_count;
    const auto wrong = std::find_if(value->integers.begin(), value->integers.end(),
                                    [count](int32_t index) { return index < 0 || index >= count; });
    if (wrong == value->integers.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("feed '", feed.name, "' has ", *wrong, " for ",
                     PlaceOf(wrong - value->integers.begin(), program.SpecOf(feed).shape),
                     "; a layer that reads it knows ", count, ", from 0"));
  }
  return absl::OkStatus();
}

// The stated shape is that of the feed, with any number of examples, and of the values.
absl::Status CheckShape(const FeedValue& value, const TensorSpec& spec) {
  const Shape stated = StatedShape(value);
  const auto& known = spec.shape.dims();
  const bool fits =
      stated.elements() == ValuesOf(value) &&
      std::equal(value.shape.begin() + 1, value.shape.end(), known.begin() + 1, known.end());
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("feed '", value.name, "' is said to be ",
                                                 stated.ToString(), " and has ", ValuesOf(value),
                                                 " values; it is ", spec.ToString()));
}

// The number of examples of one feed.
absl::StatusOr<int64_t> ExamplesOf(const FeedValue& value, const TensorSpec& spec) {
  const bool takes_integers = spec.dtype == DType::kInt32;
  const bool has_others = takes_integers ? !value.floats.empty() : !value.integers.empty();
  if (has_others) {
    return absl::InvalidArgumentError(absl::StrCat(
        "feed '", value.name, "' takes ",
        takes_integers ? "integers, but floats" : "floats, but integers", " are given"));
  }
  if (value.on_device && takes_integers) {
    return absl::InvalidArgumentError(
        absl::StrCat("feed '", value.name, "' takes integers, which must be in the host's memory"));
  }
  const int64_t of_example = spec.elements() / spec.shape[0], values = ValuesOf(value);
  if (!value.shape.empty()) RETURN_IF_ERROR(CheckShape(value, spec));
  const int64_t examples = values / of_example;
  if (1 <= examples && examples <= spec.shape[0] && values == examples * of_example)
    return examples;
  return absl::InvalidArgumentError(absl::StrCat("feed '", value.name, "' has ", values,
                                                 " values; it is ", spec.ToString(), ", ",
                                                 of_example, " for each example"));
}

}  // namespace

const FeedValue* FindFeed(const Feeds& feeds, std::string_view name) {
  const auto found = std::find_if(feeds.begin(), feeds.end(),
                                  [&](const FeedValue& value) { return value.name == name; });
  return found == feeds.end() ? nullptr : &*found;
}

Shape StatedShape(const FeedValue& value) {
  return Shape(Shape::Dims(value.shape.begin(), value.shape.end()));
}

absl::StatusOr<int64_t> ExamplesIn(const Feeds& feeds, const Program& program) {
  RETURN_IF_ERROR(CheckNames(feeds, program.feeds, "feed"));
  const bool trains = program.options.mode == Mode::kTraining;
  std::optional<std::pair<std::string, int64_t>> first;
  for (const Port& feed : program.feeds) {
    const bool is_target = program.IsTarget(feed);
    const FeedValue* const value = FindFeed(feeds, feed.name);
    if (value == nullptr && is_target && !trains) continue;
    if (value == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are no values for feed '", feed.name, "'"));
    }
    if (value->on_device && is_target) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feed '", feed.name, "', which only losses read, must be in the host's memory"));
    }
    ASSIGN_OR_RETURN(const int64_t examples, ExamplesOf(*value, program.SpecOf(feed)));
    if (examples != program.net.batch && (trains || value->on_device)) {
      return absl::InvalidArgumentError(absl::StrCat("feed '", feed.name, "' has values for ",
                                                     examples, " examples; the network's batch is ",
                                                     program.net.batch));
    }
    if (!first.has_value()) first.emplace(feed.name, examples);
    if (examples == first->second) continue;
    return absl::InvalidArgumentError(absl::StrCat("feed '", first->first, "' has values for ",
                                                   first->second, " examples, but '", feed.name,
                                                   "' for ", examples));
  }
  if (!first.has_value()) return absl::InvalidArgumentError("no feed is given");
  RETURN_IF_ERROR(CheckClasses(feeds, program));
  RETURN_IF_ERROR(CheckIndices(feeds, program));
  return first->second;
}

absl::Status CheckGivenGradients(const Feeds& gradients, const Program& program) {
  std::vector<Port> taken = program.outputs;
  std::erase_if(taken, [](const Port& output) { return !output.gradient.has_value(); });
  RETURN_IF_ERROR(CheckNames(gradients, taken, "output with a gradient"));
  for (const Port& output : taken) {
    const FeedValue* const value = FindFeed(gradients, output.name);
    if (value == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no gradient of output '", output.name, "'"));
    }
    const TensorSpec spec = program.SpecOf(output);
    const std::string what = absl::StrCat("the gradient of output '", output.name, "'");
    const bool has_shape = value->shape.empty() || StatedShape(*value).dims() == spec.shape.dims();
    if (!value->integers.empty() || std::ssize(value->floats) != spec.elements() || !has_shape) {
      return absl::InvalidArgumentError(absl::StrCat(what, " has ", ValuesOf(*value),
                                                     " values; it is ", spec.elements(),
                                                     " floats, as ", spec.ToString()));
    }
    if (value->on_device && program.loss_scale.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, " must be in the host's memory, where it is multiplied by the loss scale"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabels(absl::Span<const int32_t> labels, const Shape& shape, int64_t classes) {
  const auto wrong = std::find_if(labels.begin(), labels.end(), [classes](int32_t label) {
    return label != kNoLabel && (label < 0 || label >= classes);
  });
  if (wrong == labels.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the batch labels ", PlaceOf(wrong - labels.begin(), shape), " with ", *wrong,
                   "; the network has ", classes, " classes, from 0"));
}

KnownTargets CountKnown(const FeedValue& target, const Shape& targets, const Shape& predictions) {
  KnownTargets known;
  const auto count = [&known](int64_t values, int64_t of_example, auto is_known) {
    for (int64_t first = 0; first < values; first += of_example) {
      int64_t of_this = 0;
      for (int64_t i = first; i < first + of_example; ++i) of_this += is_known(i) ? 1 : 0;
      known.values += of_this;
      known.examples += of_this > 0 ? 1 : 0;
    }
  };
  const int64_t of_example = targets.elements() / targets.n();
  count(std::ssize(target.floats), of_example,
        [&](int64_t i) { return !std::isnan(target.floats[static_cast<size_t>(i)]); });
  const std::optional<LabelGrid> grid = LabelGridOf(predictions, targets);
  if (!grid.has_value() || !grid->is_finer()) {
    count(std::ssize(target.integers), of_example,
          [&](int64_t i) { return target.integers[static_cast<size_t>(i)] != kNoLabel; });
    return known;
  }
  const int64_t examples = std::ssize(target.integers) / of_example;
  count(examples * predictions.positions(), predictions.positions(), [&](int64_t i) {
    return target.integers[static_cast<size_t>(grid->LabelOf(i))] != kNoLabel;
  });
  return known;
}

}  // namespace neap
