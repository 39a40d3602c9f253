#include "tests/small_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "neap/core/base/philox.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"

namespace neap {

Graph SmallNet(Layout layout, bool with_block, DType dtype) {
  Graph net({.name = "small", .batch = 8, .dtype = dtype, .layout = layout});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 8, .kernel = 3, .padding = 1, .bias = false},
              {x});
  x = net.Add("bn1", BatchNorm{}, {x});
  const std::string trunk = net.Add("relu1", Relu{}, {x});
  x = trunk;
  if (with_block) {
    x = net.Add("conv2", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {trunk});
    x = net.Add("relu2", Relu{}, {x});
    x = net.Add("add", Add{}, {x, trunk});
  }
  x = net.Add("pool", MaxPool{}, {x});
  x = net.Add("drop", Dropout{.probability = 0.25F}, {x});
  x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  return net;
}

Batch MakeBatch(uint64_t seed) {
  Batch batch;
  batch.size = 8;
  for (int32_t i = 0; i < 8; ++i) {
    batch.labels.push_back(i % 4);
    for (uint64_t j = 0; j < 3 * 8 * 8; ++j) {
      const PhiloxBlock random =
          Philox({.key = seed, .stream = static_cast<uint64_t>(i), .position = j});
      const bool bright = j % 4 == static_cast<uint64_t>(i % 4);
      batch.images.push_back(ToUnitFloat(random[0]) + (bright ? 1.0F : 0.0F));
    }
  }
  return batch;
}

std::unique_ptr<CpuDevice> OpenCpu() {
  auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  return *std::move(device);
}

Session MakeSession(Device& device, PlannerOptions planning, TrainingOptions training,
                    Layout layout) {
  absl::StatusOr<Session> session =
      CreateSession(SmallNet(layout), device, std::move(planning), training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

PlannerOptions Tight(Device& device, const std::string& policy) {
  const Session natural = MakeSession(device, {.policy = policy});
  return {.budget_bytes = natural.planning().minimum_budget_bytes, .policy = policy};
}

float Train(Session& session, int steps) {
  float loss = 0;
  for (int i = 0; i < steps; ++i) {
    const absl::StatusOr<float> result =
        session.TrainStep(MakeBatch(static_cast<uint64_t>(session.step())));
    REQUIRE_MESSAGE(result.ok(), result.status().ToString());
    loss = *result;
  }
  return loss;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void FinishInto(Trained& trained, Session& session) {
  const absl::StatusOr<StepResult> result = session.Finish();
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  trained[0].push_back(result->loss);
}

void AppendState(Trained& trained, Session& session) {
  for (const PlanTensor& tensor : session.plan().tensors) {
    if (IsPersistent(tensor.role)) trained.push_back(*session.Values(tensor.name));
  }
}

bool AreSame(const Trained& a, const Trained& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return SameBits(x, y); });
}

void CheckSameState(Session& a, Session& b) {
  CHECK(a.step() == b.step());
  for (const PlanTensor& tensor : a.plan().tensors) {
    if (!IsPersistent(tensor.role)) continue;
    INFO(tensor.name);
    CHECK(SameBits(*a.Values(tensor.name), *b.Values(tensor.name)));
  }
}

}  // namespace neap
