// Layers that neap does not know: a convolution and a GELU by other names, with kernels of the
// test's own. They declare what they are (core/step/layer_traits.h), so they are planned,
// offloaded, rebuilt, divided and trained under every policy, and no line outside this file knows
// them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/forwarding_device.h"
#include "tests/small_training.h"

namespace neap {
namespace {

using namespace operands;

constexpr LayerTraits kConvolutionTraits = {.checkpoint = true,
                                            .hides_transfers = true,
                                            .divisible = true,
                                            .independent_images = true,
                                            .paper_reads_output = false};

struct OwnConvolution {
  static constexpr std::string_view kType = "own_convolution";
  Convolution like;
  LayerTraits traits = kConvolutionTraits;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    ASSIGN_OR_RETURN(LayerSpec spec, like.Specify(context));
    spec.traits = traits;
    return spec;
  }
  std::string Parameters() const { return like.Parameters(); }
  friend bool operator==(const OwnConvolution&, const OwnConvolution&) = default;
};

// y = x / 2 * (1 + erf(x / sqrt 2)). Its backward reads x, where Relu's reads y.
struct OwnGelu {
  static constexpr std::string_view kType = "own_gelu";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    RETURN_IF_ERROR(CheckImageInputs(context, 1));
    LayerSpec spec = {.output = context.inputs[0]};
    spec.steps.push_back({.reads = {X()}, .writes = {Y()}});
    if (context.mode == Mode::kInference) return spec;
    spec.steps.push_back({.phase = Phase::kBackwardData,
                          .reads = {X(), Dy()},
                          .writes = {Dx()},
                          .in_place = {{Dx(), Dy()}}});
    return spec;
  }
  friend bool operator==(const OwnGelu&, const OwnGelu&) = default;
};

class OwnGeluKernel final : public Kernel {
 public:
  explicit OwnGeluKernel(StepSignature signature) : signature_(std::move(signature)) {}
  absl::Status Run(const KernelArgs& args) override {
    const auto values = [&](Operand operand) {
      return static_cast<float*>(args.operands[*signature_.Find(operand)]);
    };
    const float* const x = values(X());
    const bool forward = signature_.phase == Phase::kForward;
    float* const to = values(forward ? Y() : Dx());
    for (int64_t i = 0; i < signature_.Spec(X()).elements(); ++i) {
      const float below = 0.5F * (1 + std::erf(x[i] * std::sqrt(0.5F)));
      const float density = std::exp(-0.5F * x[i] * x[i]) * 0.3989423F;
      to[i] = forward ? x[i] * below : values(Dy())[i] * (below + x[i] * density);
    }
    return absl::OkStatus();
  }

 private:
  StepSignature signature_;
};

// The CPU with kernels for both layers, under another name: on the CPU by its own name convolutions
// are never divided. Every step has one engine, so that every plan trains to the same bits; where a
// step is divisible, the engine wants workspace for each image.
class OwnDevice final : public ForwardingDevice, public Backend {
 public:
  explicit OwnDevice(Device& cpu) : ForwardingDevice(cpu), description_(cpu.description()) {
    description_.kind = "own";
  }
  const DeviceDescription& description() const override { return description_; }
  Backend& backend() override { return *this; }
  std::string Versions() const override { return "own"; }

  absl::StatusOr<std::vector<Engine>> Engines(const StepSignature& signature) override {
    if (IsOwnGelu(signature)) return std::vector<Engine>{{.id = std::string(kOwnEngine)}};
    ASSIGN_OR_RETURN(std::vector<Engine> engines, Cpu().Engines(Known(signature)));
    std::erase_if(engines, [](const Engine& engine) { return !engine.deterministic; });
    engines.resize(1);
    if (IsDivisible(signature))
      engines[0].workspace_bytes += BatchOf(signature) * kWorkspaceBytesPerImage;
    return engines;
  }
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     std::string_view engine) override {
    if (IsOwnGelu(signature)) return std::make_unique<OwnGeluKernel>(signature);
    return Cpu().MakeKernel(Known(signature), engine);
  }

 private:
  // More than the gradients of a convolution's parameters in SmallNet-like networks.
  static constexpr int64_t kWorkspaceBytesPerImage = 8 * kKiB;

  static bool IsOwnGelu(const StepSignature& signature) {
    return signature.layer.As<OwnGelu>() != nullptr;
  }
  static StepSignature Known(StepSignature signature) {
    if (const auto* own = signature.layer.As<OwnConvolution>()) signature.layer = own->like;
    return signature;
  }
  Backend& Cpu() { return ForwardingDevice::backend(); }

  DeviceDescription description_;
};

// Divisible steps are measured on the whole batch and on half of it, which is faster and wants less
// workspace: every plan that asks divides every one of them.
class HalvesAreFast final : public KernelTimings {
 public:
  explicit HalvesAreFast(OwnDevice& device) : device_(device) {}
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    if (signature.phase == Phase::kAddGradients)
      return {{.engine = std::string(kOwnEngine), .batch = BatchOf(signature), .seconds = 1e-9}};
    if (!IsDivisible(signature) || AddsToGradients(signature)) return {};
    std::vector<TimedEngine> timed;
    for (const int64_t batch : {kBatch / 2, kBatch}) {
      const Engine engine = device_.Engines(WithBatch(signature, batch))->front();
      timed.push_back({engine.id, batch, engine.workspace_bytes, batch == kBatch ? 1e-3 : 1e-4});
    }
    return timed;
  }

 private:
  static constexpr int64_t kBatch = 8;
  OwnDevice& device_;
};

// conv1 is read by two GELUs, one of which adds its gradient to the other's, and the first GELU by
// a convolution and a sum, whose gradients meet. `convolution` makes a layer like the given one.
template <typename MakeConvolution>
Graph NetOf(const MakeConvolution& convolution) {
  const Convolution same = {.out_channels = 8, .kernel = 3, .padding = 1};
  Graph net({.name = "own", .batch = 8});
  const std::string conv1 = net.Add("conv1", convolution(same), {net.Input({3, 8, 8})});
  const std::string trunk = net.Add("gelu1", OwnGelu{}, {conv1});
  std::string x = net.Add("conv2", convolution(same), {trunk});
  x = net.Add("gelu2", OwnGelu{}, {x});
  x = net.Add("add", Add{}, {x, trunk});
  x = net.Add("concat", Concat{}, {x, net.Add("gelu1b", OwnGelu{}, {conv1})});
  x = net.Add("gelu3", OwnGelu{}, {net.Add("conv3", convolution(same), {x})});
  x = net.Add("pool", MaxPool{}, {x});
  x = net.Add("gelu4", OwnGelu{}, {net.Add("conv4", convolution(same), {x})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}
Graph OwnNet(const LayerTraits& traits = kConvolutionTraits) {
  return NetOf([&](const Convolution& like) { return Layer(OwnConvolution{like, traits}); });
}
Graph TwinNet() {
  return NetOf([](const Convolution& like) { return Layer(like); });
}

// What any plan did with the layers of the test's own.
struct Seen {
  std::set<std::string> offloaded;  // tensors
  std::set<std::string> rebuilt;    // types of layers
  std::set<std::string> divided;    // "own_convolution backward_params"
};

void Look(const Plan& plan, Seen& seen) {
  for (const Action& action : plan.actions) {
    if (const auto* offload = std::get_if<OffloadAction>(&action))
      seen.offloaded.insert(plan.tensors[offload->tensor.index()].name);
    const auto* compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr) continue;
    const PlanStep& step = plan.steps[compute->step.index()];
    if (compute->recompute) seen.rebuilt.insert(step.type);
    if (compute->engines.size() > 1)
      seen.divided.insert(step.type + " " + std::string(Name(step.phase)));
  }
}

// Trains OwnNet() under every policy: with bytes to spare, with none, and in between. Each plan is
// that of the network of neap's convolutions, action by action, and trains as `reference` does.
Seen CheckEveryPolicy(OwnDevice& device, PlannerOptions options, Session& reference) {
  Train(reference, 3);
  Seen seen;
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    options.policy = policy.name;
    options.budget_bytes = kUnlimited;
    const Session natural = Opened(OwnNet(), device, options);
    const int64_t minimum = natural.planning().minimum_budget_bytes;
    const int64_t peak = std::max(minimum, natural.plan().peak_bytes);
    for (const int64_t budget_bytes : {kUnlimited, minimum, (minimum + peak) / 2}) {
      CAPTURE(budget_bytes);
      options.budget_bytes = budget_bytes;
      Session session = Opened(OwnNet(), device, options);
      CHECK(session.plan().actions == Opened(TwinNet(), device, options).plan().actions);
      Look(session.plan(), seen);
      Train(session, 3);
      CheckSameState(reference, session);
      CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
    }
  }
  return seen;
}

TEST_CASE("layers of one's own train to the same bits under every policy") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  OwnDevice device(*cpu);
  Session reference = Opened(TwinNet(), device, {.policy = "keep-all"});
  const Seen seen = CheckEveryPolicy(device, {}, reference);
  CHECK(seen.divided.empty());
  for (const std::string conv : {"conv1", "conv2", "conv3", "conv4"}) {
    CAPTURE(conv);
    CHECK(seen.offloaded.contains(conv));
  }
  CHECK(seen.rebuilt.contains("own_gelu"));
  CHECK(seen.rebuilt.contains("own_convolution"));  // by chen alone
}

TEST_CASE("a convolution of one's own is divided, and trains to the same bits under every policy") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  OwnDevice device(*cpu);
  const PlannerOptions options = {.kernels = {.timings = std::make_shared<HalvesAreFast>(device)}};
  PlannerOptions keep_all = options;
  keep_all.policy = "keep-all";
  Session reference = Opened(TwinNet(), device, keep_all);
  const Seen seen = CheckEveryPolicy(device, options, reference);
  CHECK(seen.divided == std::set<std::string>{"own_convolution forward",
                                              "own_convolution backward_data",
                                              "own_convolution backward_params"});
}

TEST_CASE("a layer's traits decide what is offloaded, rebuilt and divided") {
  const std::unique_ptr<CpuDevice> cpu = OpenCpu();
  OwnDevice device(*cpu);
  const auto timings = std::make_shared<HalvesAreFast>(device);
  const auto seen_under = [&](const std::string& policy, const LayerTraits& traits) {
    Seen seen;
    const PlannerOptions options = {.policy = policy, .kernels = {.timings = timings}};
    Look(Opened(OwnNet(traits), device, options).plan(), seen);
    return seen;
  };
  const LayerTraits none = {};
  const std::set<std::string> convolutions = {"conv1", "conv2", "conv3", "conv4"};
  CHECK(seen_under("offload", kConvolutionTraits).offloaded == convolutions);
  CHECK(seen_under("offload", none).offloaded.empty());
  CHECK(seen_under("offload", {.hides_transfers = true}).offloaded == convolutions);

  for (const LayerTraits& traits : {kConvolutionTraits, LayerTraits{.checkpoint = true}}) {
    const std::set<std::string> rebuilt = seen_under("recompute-speed", traits).rebuilt;
    CHECK(rebuilt.contains("own_gelu"));
    CHECK_FALSE(rebuilt.contains("own_convolution"));
  }
  CHECK(seen_under("recompute-speed", none).rebuilt.contains("own_convolution"));

  CHECK(seen_under("liveness", kConvolutionTraits).divided.size() == 3);
  CHECK(seen_under("liveness", {.divisible = true}).divided.size() == 3);
  CHECK(seen_under("liveness", none).divided.empty());
}

TEST_CASE("by the paper's accounting a convolution of one's own reads no y, a GELU does") {
  const ProgramOptions options = {.accounting = Accounting::kPaper};
  const Program own = BuildProgram(OwnNet(), options).value();
  const Program twin = BuildProgram(TwinNet(), options).value();
  CHECK(own.steps == twin.steps);
  CHECK(own.tensors == twin.tensors);
  for (const Step& step : own.steps) {
    if (step.phase == Phase::kForward) continue;
    const bool reads_output = std::any_of(step.reads.begin(), step.reads.end(), [](const Use& use) {
      return use.operand.slot == Slot::kOutput;
    });
    const std::string_view type = own.StepType(step);
    CAPTURE(own.StepName(step));
    CHECK(reads_output == (type != OwnConvolution::kType && type != FullyConnected::kType));
  }
}

}  // namespace
}  // namespace neap
