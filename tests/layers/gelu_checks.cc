#include "tests/layers/gelu_checks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "examples/custom_layer/gelu.h"
#include "neap/core/base/philox.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/run/session.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/layers/harness.h"
#include "tests/small_training.h"

namespace neap::testing {
namespace {

using namespace operands;

constexpr int64_t kBatch = 8;
constexpr int kSteps = 3;

// Memory of a device, one allocation per request.
class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device) : device_(device) {}
  DeviceAccess Access() {
    const auto copy = [this](void* to, const void* from, int64_t bytes) {
      REQUIRE(device_.Copy(Stream::kCompute, to, from, bytes).ok());
      REQUIRE(device_.Synchronize().ok());
    };
    return {.allocate = [this](int64_t bytes) -> void* {
              Buffer buffer = device_.Allocate(MemoryKind::kDevice, bytes).value();
              void* const at = buffer.data();
              buffers_.emplace(at, std::move(buffer));
              return at;
            },
            .release = [this](void* at) { buffers_.erase(at); },
            .copy_in = copy,
            .copy_out = copy};
  }

 private:
  Device& device_;
  std::map<void*, Buffer> buffers_;
};

// Values from -4 to 4, some of them exactly 0.
std::vector<double> Points(int64_t count) {
  std::vector<double> points;
  for (int64_t i = 0; i < count; ++i) points.push_back(static_cast<double>(i % 33 - 16) / 4);
  return points;
}

std::vector<double> Shifted(std::vector<double> values, double by) {
  for (double& value : values) value += by;
  return values;
}

Batch BatchOfStep(int step) {
  Batch batch = {.size = kBatch};
  for (int64_t i = 0; i < kBatch; ++i) batch.labels.push_back(static_cast<int32_t>(i % 4));
  for (uint64_t i = 0; i < kBatch * 3 * 8 * 8; ++i) {
    const auto key = static_cast<uint64_t>(step);
    batch.images.push_back(2 * ToUnitFloat(Philox({.key = key, .position = i})[0]) - 1);
  }
  return batch;
}

struct Trained {
  std::vector<std::vector<float>> state;  // losses, then the persistent tensors
  Plan plan;
};

Session Create(Device& device, DType dtype, PlannerOptions options) {
  options.strict = true;
  absl::StatusOr<Session> session = CreateSession(QuickGeluNet(dtype), device, std::move(options),
                                                  {.learning_rate = {.base = 0.01F}});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

Trained Train(Device& device, DType dtype, PlannerOptions options) {
  Session session = Create(device, dtype, std::move(options));
  Trained trained = {.state = {{}}, .plan = session.plan()};
  for (int step = 0; step < kSteps; ++step) {
    const absl::StatusOr<float> loss = session.TrainStep(BatchOfStep(step));
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    trained.state[0].push_back(*loss);
  }
  CHECK(session.memory().measured_peak_bytes == session.memory().predicted_peak_bytes);
  for (const PlanTensor& tensor : trained.plan.tensors) {
    if (IsPersistent(tensor.role)) trained.state.push_back(*session.Values(tensor.name));
  }
  return trained;
}

bool SameState(const Trained& a, const Trained& b) {
  return std::equal(a.state.begin(), a.state.end(), b.state.begin(), b.state.end(), SameBits);
}

float Gate(float x) { return 1 / (1 + std::exp(-1.702F * x)); }

absl::Status ForwardInBf16(const CustomRun& step) {
  const Bf16* const x = step.Get<Bf16>(X());
  Bf16* const y = step.Get<Bf16>(Y());
  for (int64_t i = 0; i < step.Elements(Y()); ++i) {
    const auto value = static_cast<float>(x[i]);
    y[i] = Bf16(value * Gate(value));
  }
  return absl::OkStatus();
}

absl::Status BackwardInBf16(const CustomRun& step) {
  const Bf16* const x = step.Get<Bf16>(X());
  const Bf16* const dy = step.Get<Bf16>(Dy());
  Bf16* const dx = step.Get<Bf16>(Dx());
  for (int64_t i = 0; i < step.Elements(Dx()); ++i) {
    const auto value = static_cast<float>(x[i]);
    const float gate = Gate(value);
    dx[i] = Bf16(static_cast<float>(dy[i]) * gate * (1 + 1.702F * value * (1 - gate)));
  }
  return absl::OkStatus();
}

bool RerunsQuickGelu(const Plan& plan) {
  for (const Action& action : plan.actions) {
    const auto* compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr || !compute->recompute) continue;
    if (plan.steps[compute->step.index()].type == QuickGelu::kType) return true;
  }
  return false;
}

}  // namespace

std::vector<CustomKernel> CpuBf16QuickGeluKernels() {
  const std::string type(QuickGelu::kType);
  return {
      {.layer_type = type, .phase = Phase::kForward, .run = ForwardInBf16, .takes_16_bits = true},
      {.layer_type = type,
       .phase = Phase::kBackwardData,
       .run = BackwardInBf16,
       .takes_16_bits = true}};
}

Graph QuickGeluNet(DType dtype) {
  Graph net({.name = "gelu-net", .batch = kBatch, .dtype = dtype});
  std::string x = net.Input({3, 8, 8});
  const std::string trunk =
      net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("gelu1", QuickGelu{}, {trunk});
  x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("add", Add{}, {x, trunk});
  x = net.Add("gelu2", QuickGelu{}, {x});
  x = net.Add("pool", MaxPool{}, {x});
  x = net.Add("gelu3", QuickGelu{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

void CheckQuickGeluGradient(Device& device) {
  constexpr double kShift = 1.0 / 64;
  const TensorSpec spec = {{2, 3, 11, 3}};
  const StepSignature forward = neap::SignatureOf(QuickGelu{}, Phase::kForward, {spec}).value();
  const StepSignature backward =
      neap::SignatureOf(QuickGelu{}, Phase::kBackwardData, {spec}).value();
  DeviceMemory memory(device);
  const DeviceAccess access = memory.Access();
  const std::vector<double> x = Points(spec.elements());
  std::vector<double> dy = x;
  for (double& value : dy) value = 1.5 - value;

  const auto run = [&](const StepSignature& signature, const Values& given) {
    absl::StatusOr<Values> results = RunStep(device.backend(), access, signature, given);
    REQUIRE_MESSAGE(results.ok(), results.status().ToString());
    return *std::move(results);
  };
  // GELU is elementwise, so all elements can be shifted at once.
  const std::vector<double> above = run(forward, {{X(), Shifted(x, kShift)}}).at(Y());
  const std::vector<double> below = run(forward, {{X(), Shifted(x, -kShift)}}).at(Y());
  const std::vector<double> dx = run(backward, {{X(), x}, {Dy(), dy}}).at(Dx());
  for (size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    const double slope = (above[i] - below[i]) / (2 * kShift);
    CHECK(dx[i] == doctest::Approx(dy[i] * slope).epsilon(1e-3));
  }
}

void CheckQuickGeluTrainsTheSameUnderEveryPolicy(Device& device, DType dtype) {
  const Trained reference = Train(device, dtype, {.policy = "keep-all", .in_place = false});
  bool reruns = false, moves = false;
  for (const Policy& policy : Policies()) {
    const std::string name(policy.name);
    CAPTURE(name);
    const int64_t minimum = Create(device, dtype, {.policy = name}).planning().minimum_budget_bytes;
    const Trained tight = Train(device, dtype, {.budget_bytes = minimum, .policy = name});
    CHECK(tight.plan.arena_bytes <= minimum);
    CHECK(SameState(tight, reference));
    reruns = reruns || RerunsQuickGelu(tight.plan);
    moves = moves || TotalMovement(tight.plan).offloaded_bytes > 0;
  }
  CHECK(reruns);
  CHECK(moves);
}

}  // namespace neap::testing
