#include "tests/given_gradients.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "tests/small_training.h"

namespace neap::testing {
namespace {

const NamedTensor& OutputCalled(const std::vector<NamedTensor>& outputs, const std::string& name) {
  const auto output = std::find_if(outputs.begin(), outputs.end(),
                                   [&](const NamedTensor& one) { return one.name == name; });
  REQUIRE(output != outputs.end());
  return *output;
}

// (softmax(logits) - target) / labels * weight.
std::vector<float> SoftmaxGradient(const NamedTensor& logits, absl::Span<const int32_t> labels,
                                   int64_t batches, float weight) {
  const int64_t classes = logits.shape.c(), positions = logits.shape.positions();
  const auto count = static_cast<float>(batches * std::ssize(labels));
  std::vector<float> gradient(logits.values.size());
  for (int64_t i = 0; i < std::ssize(labels); ++i) {
    const auto at = [&](int64_t c) {
      return static_cast<size_t>((i / positions * classes + c) * positions + i % positions);
    };
    float largest = logits.values[at(0)];
    for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, logits.values[at(c)]);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      gradient[at(c)] = std::exp(logits.values[at(c)] - largest);
      sum += static_cast<double>(gradient[at(c)]);
    }
    const float scale = static_cast<float>(1.0 / sum);
    const int32_t label = labels[static_cast<size_t>(i)];
    for (int64_t c = 0; c < classes; ++c) {
      const float target = c == label ? 1.0F : 0.0F;
      gradient[at(c)] = (gradient[at(c)] * scale - target) / count * weight;
    }
  }
  return gradient;
}

// 2 (y - target) / elements * weight.
std::vector<float> SquaredErrorGradient(const NamedTensor& y, absl::Span<const float> targets,
                                        int64_t batches, float weight) {
  const auto elements = static_cast<float>(batches * std::ssize(targets));
  std::vector<float> gradient;
  for (size_t i = 0; i < targets.size(); ++i)
    gradient.push_back(2 * (y.values[i] - targets[i]) / elements * weight);
  return gradient;
}

}  // namespace

GivenLosses::GivenLosses(const Graph& net, const std::vector<std::string>& kept)
    : net_(net.options()) {
  const auto is_kept = [&](const GraphLayer& layer) {
    return !IsLoss(layer.role) || std::count(kept.begin(), kept.end(), layer.name) > 0;
  };
  std::set<std::string> read;
  for (const GraphLayer& layer : net.layers()) {
    if (is_kept(layer)) read.insert(layer.inputs.begin(), layer.inputs.end());
  }
  for (const GraphLayer& layer : net.layers()) {
    if (!is_kept(layer)) {
      const auto* const squared = layer.layer.As<MeanSquaredError>();
      losses_.push_back({.predictions = layer.inputs[0],
                         .target = layer.inputs[1],
                         .weight = squared != nullptr
                                       ? squared->weight
                                       : layer.layer.As<SoftmaxCrossEntropy>()->weight,
                         .is_squared = squared != nullptr});
      net_.OutputWithGradient(layer.inputs[0]);
    } else if (layer.role != LayerRole::kFeed || read.contains(layer.name)) {
      net_.Add(layer);
    }
  }
  for (const GraphOutput& output : net.outputs()) {
    const auto is_it = [&](const GivenLoss& loss) { return loss.predictions == output.name; };
    if (std::none_of(losses_.begin(), losses_.end(), is_it)) net_.Output(output.name);
  }
  net_.Sizes(net.sizes());
  for (const SharedParam& shared : net.shared()) net_.Share(shared.param, shared.owner);
}

Feeds GivenLosses::FeedsOf(const Feeds& feeds) const {
  Feeds own;
  for (const FeedValue& value : feeds) {
    const auto has_name = [&](const GraphLayer& layer) { return layer.name == value.name; };
    if (std::any_of(net_.layers().begin(), net_.layers().end(), has_name)) own.push_back(value);
  }
  return own;
}

std::vector<std::vector<float>> GivenLosses::GradientsOf(const std::vector<NamedTensor>& outputs,
                                                         const Feeds& feeds,
                                                         int64_t batches) const {
  std::vector<std::vector<float>> gradients;
  for (const GivenLoss& loss : losses_) {
    const NamedTensor& predictions = OutputCalled(outputs, loss.predictions);
    const FeedValue& target = *FindFeed(feeds, loss.target);
    gradients.push_back(loss.is_squared
                            ? SquaredErrorGradient(predictions, target.floats, batches, loss.weight)
                            : SoftmaxGradient(predictions, target.integers, batches, loss.weight));
  }
  return gradients;
}

Feeds GivenLosses::Named(const std::vector<std::vector<float>>& gradients) const {
  Feeds named;
  for (size_t i = 0; i < losses_.size(); ++i)
    named.push_back({.name = losses_[i].predictions, .floats = gradients[i]});
  return named;
}

StepResult GivenLosses::Step(Session& session, const Feeds& feeds, int64_t batches) const {
  const absl::StatusOr<std::vector<NamedTensor>> outputs = session.Forward(FeedsOf(feeds));
  REQUIRE_MESSAGE(outputs.ok(), outputs.status().ToString());
  const std::vector<std::vector<float>> gradients = GradientsOf(*outputs, feeds, batches);
  const absl::StatusOr<StepResult> result = session.Backward(Named(gradients));
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  return *result;
}

void CheckSameParameters(Session& a, Session& b) {
  int64_t compared = 0;
  const std::vector<PlanTensor> tensors = a.plan().tensors;
  for (const PlanTensor& tensor : tensors) {
    if (!IsPersistent(tensor.role) || tensor.name.ends_with(".metrics")) continue;
    CAPTURE(tensor.name);
    const absl::StatusOr<std::vector<float>> of_a = a.Values(tensor.name);
    const absl::StatusOr<std::vector<float>> of_b = b.Values(tensor.name);
    REQUIRE(of_a.ok());
    REQUIRE(of_b.ok());
    CHECK(SameBits(*of_a, *of_b));
    ++compared;
  }
  CHECK(compared >= 3);
}

}  // namespace neap::testing
