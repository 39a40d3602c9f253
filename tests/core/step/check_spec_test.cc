// Specs that a user's layer may make by mistake: each is refused in words, and nothing is looked up
// by a number that does not exist.
#include "neap/core/step/check_spec.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

using namespace operands;

using Change = std::function<void(LayerSpec& spec)>;

// y = w x and a mistake.
struct Mistaken {
  static constexpr std::string_view kType = "mistaken";
  Change change;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    const TensorSpec& x = context.inputs[0];
    LayerSpec spec = {.output = x,
                      .params = {{.name = "weight", .tensor = VectorSpec(1)}},
                      .states = {{.name = "count", .tensor = VectorSpec(1)}},
                      .saved = {{.name = "kept", .tensor = VectorSpec(3)}},
                      .steps = {{.reads = {X(), Param(0)}, .writes = {Y(), Saved(0)}}}};
    spec.steps.push_back({.phase = Phase::kBackwardData,
                          .reads = {X(), Dy(), Saved(0)},
                          .writes = {Dx(), ParamGrad(0)}});
    if (change != nullptr) change(spec);
    return spec;
  }
  std::string Parameters() const { return ""; }
  friend bool operator==(const Mistaken&, const Mistaken&) { return true; }
};

absl::Status StatusOf(const Change& change) {
  Graph net({.name = "net", .batch = 2});
  std::string x = net.Add("own", Mistaken{change}, {net.Input({3, 4, 4})});
  x = net.Add("fc", FullyConnected{.out_features = 2}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return Resolve(net, Mode::kTraining).status();
}

void CheckRefused(const std::string& why, const Change& change) {
  const absl::Status status = StatusOf(change);
  CHECK(absl::IsInvalidArgument(status));
  CHECK(std::string(status.message()) == "layer 'own': " + why);
}

TEST_CASE("a layer without a mistake is accepted") { CHECK(StatusOf(nullptr).ok()); }

TEST_CASE("an operand that does not exist is refused, naming the layer and the step") {
  CheckRefused("its step 0, forward, reads input[1], but the largest index is 0",
               [](LayerSpec& spec) { spec.steps[0].reads.push_back(X(1)); });
  CheckRefused("its step 0, forward, reads param[-1], but the largest index is 0",
               [](LayerSpec& spec) { spec.steps[0].reads[1] = Param(-1); });
  CheckRefused(
      "its step 1, backward_data, writes param_grad[2147483647], but the largest index is 0",
      [](LayerSpec& spec) {
        spec.steps[1].writes[1] = ParamGrad(std::numeric_limits<int>::max());
      });
  CheckRefused("its step 0, forward, accumulates state[7], but the largest index is 0",
               [](LayerSpec& spec) { spec.steps[0].accumulates = {State(7)}; });
  CheckRefused("its step 0, forward, reads again saved[1], but the largest index is 0",
               [](LayerSpec& spec) {
                 spec.steps[0].rerun_reads = {X(), Saved(1)};
               });
  CheckRefused("its passes_linear_grad is 3, which is no input",
               [](LayerSpec& spec) { spec.passes_linear_grad = 3; });
}

TEST_CASE("an operand that a step cannot have is refused") {
  CheckRefused("its step 0, forward, reads output_grad[0], which it does not have",
               [](LayerSpec& spec) { spec.steps[0].reads.push_back(Dy()); });
  CheckRefused("its step 1, backward_data, reads linear_grad[0], which it does not have",
               [](LayerSpec& spec) { spec.steps[1].reads.push_back(Dz()); });
  CheckRefused("its step 1, backward_data, reads loss_scale[0], which it does not have",
               [](LayerSpec& spec) { spec.steps[1].reads.push_back(LossScaling()); });
  CheckRefused("its step 0, forward, reads master[0], which it does not have",
               [](LayerSpec& spec) { spec.steps[0].reads.push_back(Master(0)); });
  CheckRefused("its step 0, forward, writes output[0] twice",
               [](LayerSpec& spec) { spec.steps[0].writes.push_back(Y()); });
}

TEST_CASE("a value that is none of an enum's is refused") {
  CheckRefused("its step 1 has a phase that layers do not have",
               [](LayerSpec& spec) { spec.steps[1].phase = static_cast<Phase>(77); });
  CheckRefused("its step 1 has a phase that layers do not have",
               [](LayerSpec& spec) { spec.steps[1].phase = Phase::kUpdate; });
  CheckRefused("its step 0, forward, reads an operand whose slot does not exist",
               [](LayerSpec& spec) { spec.steps[0].reads[0].slot = static_cast<Slot>(200); });
  CheckRefused("its output has an element type or a layout that does not exist",
               [](LayerSpec& spec) { spec.output.dtype = static_cast<DType>(99); });
  CheckRefused("its saved tensor 'kept' has an element type or a layout that does not exist",
               [](LayerSpec& spec) { spec.saved[0].tensor.layout = static_cast<Layout>(2); });
  CheckRefused("its parameter 'weight' has an Init::Kind that does not exist",
               [](LayerSpec& spec) { spec.params[0].init.kind = static_cast<Init::Kind>(6); });
  CHECK(Name(static_cast<Phase>(77)) == "unknown");
  CHECK(Name(static_cast<DType>(99)) == "unknown");
  CHECK(ToString(Operand{static_cast<Slot>(200), 1}) == "unknown[1]");
}

TEST_CASE("sizes that no tensor can have are refused") {
  CheckRefused("its parameter 'weight' -1x-1 fp32 nchw has no elements", [](LayerSpec& spec) {
    spec.params[0].tensor.shape = {-1, -1};
  });
  CheckRefused("its saved tensor 'kept' 4611686018427387904 fp32 nchw is larger than 16 TiB",
               [](LayerSpec& spec) { spec.saved[0].tensor = VectorSpec(int64_t{1} << 62); });
  CheckRefused("its state 'count' has 6 axes, not 1 to 5",
               [](LayerSpec& spec) { spec.states[0].tensor.shape = {1, 1, 1, 1, 1, 1}; });
  CheckRefused("its step 0, forward, has nan flops", [](LayerSpec& spec) {
    spec.steps[0].flops = std::numeric_limits<double>::quiet_NaN();
  });
}

TEST_CASE("a step that is not in its place is refused") {
  CheckRefused(
      "its step 0, backward_data, is not in its place: forward comes first, and backward "
      "behind it",
      [](LayerSpec& spec) { std::swap(spec.steps[0], spec.steps[1]); });
}

TEST_CASE("a layer that parameters precede needs a gradient of its input") {
  Graph net({.name = "net", .batch = 2});
  std::string x = net.Add("fc1", FullyConnected{.out_features = 2}, {net.Input({3, 4, 4})});
  x = net.Add("own", Mistaken{[](LayerSpec& spec) { spec.steps[1].writes = {ParamGrad(0)}; }}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  CHECK(std::string(Resolve(net, Mode::kTraining).status().message()) ==
        "layer 'own': none of its steps writes the gradient of its input 0, which the parameters "
        "before it need");
  CHECK(Resolve(net, Mode::kInference).ok());
}

TEST_CASE("a layer that leads to outputs alone needs no gradient of its input") {
  Graph net({.name = "net", .batch = 2});
  const std::string x = net.Add("fc1", FullyConnected{.out_features = 2}, {net.Input({3, 4, 4})});
  const Mistaken without_gradient{[](LayerSpec& spec) { spec.steps[1].writes = {ParamGrad(0)}; }};
  net.Output(net.Add("own", without_gradient, {x}));
  net.Loss(x, SoftmaxCrossEntropy{});
  const absl::Status resolved = Resolve(net, Mode::kTraining).status();
  CHECK_MESSAGE(resolved.ok(), resolved.ToString());
}

}  // namespace
}  // namespace neap
