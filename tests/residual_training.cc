#include "tests/residual_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "neap/core/base/philox.h"
#include "neap/core/program/passes.h"
#include "neap/core/run/session.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/forwarding_device.h"
#include "tests/small_training.h"

namespace neap::testing {
namespace {

constexpr int kSteps = 3;
constexpr int32_t kClasses = 4;
constexpr TrainingOptions kTraining = {.learning_rate = {.base = 0.05F}};

struct Size {
  int64_t batch = 0;
  int64_t channels = 0;  // of every layer
  Shape image = {};      // {channels, height, width}
};
// With the second one, neither the channels, nor the pixels of an image, nor the elements of a
// tensor are a multiple of a vector's elements.
const Size kSizes[] = {{.batch = 4, .channels = 16, .image = {3, 16, 16}},
                       {.batch = 3, .channels = 5, .image = {3, 10, 9}}};

struct Block {
  std::string name;
  int64_t stride = 1;
  bool projects = false;  // the shortcut is a convolution and a batch norm
  bool relu = true;       // behind the sum
};

std::string AddNormalised(Graph& net, const std::string& name, Convolution convolution,
                          const std::string& x) {
  convolution.bias = false;
  const std::string y = net.Add("conv_" + name, convolution, {x});
  return net.Add("bn_" + name, BatchNorm{}, {y});
}

std::string AddBlock(Graph& net, const Block& block, int64_t channels, const std::string& x) {
  const std::string& name = block.name;
  std::string y = AddNormalised(
      net, name + "1",
      {.out_channels = channels, .kernel = 3, .stride = block.stride, .padding = 1}, x);
  y = net.Add("relu_" + name + "1", Relu{}, {y});
  y = AddNormalised(net, name + "2", {.out_channels = channels, .kernel = 3, .padding = 1}, y);
  std::string shortcut = x;
  if (block.projects) {
    shortcut =
        AddNormalised(net, name + "0", {.out_channels = channels, .stride = block.stride}, x);
  }
  y = net.Add("add_" + name, Add{}, {y, shortcut});
  return block.relu ? net.Add("relu_" + name, Relu{}, {y}) : y;
}

// Two convolutions read the result of block "a", and one and a sum that of block "c", so there the
// batch norm adds two gradients.
Graph ResidualNet(const Size& size, DType dtype, Layout layout, bool fusion) {
  Graph net({.name = "residual",
             .batch = size.batch,
             .dtype = dtype,
             .layout = layout,
             .fusion = fusion});
  std::string x = net.Input(size.image);
  x = AddNormalised(net, "stem", {.out_channels = size.channels, .kernel = 3, .padding = 1}, x);
  x = net.Add("relu_stem", Relu{}, {x});
  x = net.Add("pool_stem", MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {x});
  for (const Block& block : {Block{.name = "a"}, Block{.name = "b", .stride = 2, .projects = true},
                             Block{.name = "c", .relu = false}, Block{.name = "d"}})
    x = AddBlock(net, block, size.channels, x);
  x = net.Add("pool", GlobalAveragePool{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = kClasses}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

template <typename Predicate>
int64_t CountFused(const Program& program, Predicate predicate) {
  return std::count_if(program.layers.begin(), program.layers.end(), [&](const ProgramLayer& one) {
    const auto* const layer = one.layer.As<NormPass>();
    return layer != nullptr && predicate(*layer);
  });
}

// The steps that read their output's gradient as two tensors.
int64_t CountSummedGradients(const Program& program) {
  return std::count_if(program.steps.begin(), program.steps.end(), [](const Step& step) {
    return std::any_of(step.reads.begin(), step.reads.end(),
                       [](const Use& use) { return use.operand == operands::Dy(1); });
  });
}

// Everything that the test is about is fused on this device.
void CheckFuses(const Graph& net, const Device& device) {
  const Program program = Lower(net, {}, device.description()).value();
  using Norm = NormPass;
  CHECK(CountFused(program, [](const Norm& norm) { return norm.pool() != nullptr; }) == 1);
  CHECK(CountFused(program, [](const Norm& norm) { return norm.addend_norm() != nullptr; }) == 1);
  CHECK(CountFused(program, [](const Norm& norm) { return norm.averages(); }) == 1);
  CHECK(CountFused(program, [](const Norm& norm) { return norm.has_mask(); }) == 3);
  CHECK(CountFused(program, [](const Norm& norm) { return norm.adds() && !norm.relu(); }) == 1);
  CHECK(CountFused(program, [](const Norm& norm) { return !norm.adds() && norm.relu(); }) == 5);
  CHECK(CountSummedGradients(program) == 2);
}

Batch BatchOfStep(const Size& size, int step) {
  Batch batch = {.size = size.batch};
  for (int64_t i = 0; i < size.batch; ++i)
    batch.labels.push_back(static_cast<int32_t>(i) % kClasses);
  const auto values = static_cast<uint64_t>(size.batch * size.image.elements());
  for (uint64_t i = 0; i < values; ++i) {
    const PhiloxBlock random = Philox({.key = static_cast<uint64_t>(step), .position = i});
    batch.images.push_back(2 * ToUnitFloat(random[0]) - 1);
  }
  return batch;
}

Session Create(const Graph& net, Device& device, PlannerOptions planning) {
  planning.strict = true;
  absl::StatusOr<Session> session = CreateSession(net, device, std::move(planning), kTraining);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

// Gradients of some fp16 kernels overflow at the first scale, so some steps may be skipped there.
void TrainOn(Session& session, const Size& size, DType dtype) {
  int skipped = 0;
  for (int step = 0; step < kSteps; ++step) {
    REQUIRE(session.Begin(BatchOfStep(size, step)).ok());
    const absl::StatusOr<StepResult> result = session.Finish();
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    CHECK(std::isfinite(result->loss));
    skipped += result->skipped ? 1 : 0;
  }
  CHECK(skipped < (dtype == DType::kFp16 ? kSteps : 1));
}

// Every parameter, momentum and running statistic changes in training. If it did not, it would have
// the same bits whatever computes its gradient.
void CheckChanges(Session& trained, Session& fresh) {
  for (const PlanTensor& tensor : trained.plan().tensors) {
    const bool learns = tensor.role == Role::kParam || tensor.role == Role::kMaster ||
                        tensor.role == Role::kOptimizer || tensor.role == Role::kState;
    if (!learns || tensor.name == "loss_scale") continue;
    CAPTURE(tensor.name);
    CHECK(!SameBits(*trained.Values(tensor.name), *fresh.Values(tensor.name)));
  }
}

}  // namespace

void CheckResidualNetFusion(Device& any) {
  DescribedAs device = WithoutFolding(any);
  for (const Size& size : kSizes) {
    for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
      for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
        CAPTURE(size.channels);
        CAPTURE(std::string(Name(dtype)));
        CAPTURE(std::string(Name(layout)));
        const Graph net = ResidualNet(size, dtype, layout, /*fusion=*/true);
        CheckFuses(net, device);
        const PlannerOptions plain = {.policy = "keep-all", .in_place = false};
        const Graph layers = ResidualNet(size, dtype, layout, /*fusion=*/false);
        Session apart = Create(layers, device, plain), fresh = Create(layers, device, plain);
        TrainOn(apart, size, dtype);
        CheckChanges(apart, fresh);

        Session fused = Create(net, device, {.policy = "liveness"});
        TrainOn(fused, size, dtype);
        CheckSameState(apart, fused);
        PlannerOptions rebuilding = {.policy = "superneurons"};
        rebuilding.budget_bytes = Create(net, device, rebuilding).planning().minimum_budget_bytes;
        Session rebuilt = Create(net, device, rebuilding);
        TrainOn(rebuilt, size, dtype);
        CheckSameState(apart, rebuilt);
      }
    }
  }
}

}  // namespace neap::testing
