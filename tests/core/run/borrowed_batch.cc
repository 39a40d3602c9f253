#include "tests/core/run/borrowed_batch.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr uint64_t kBorrowedSteps = 5;

Trained TrainOn(Session session, const std::vector<Batch>& batches) {
  Trained trained(1);
  for (size_t step = 0; step < batches.size(); ++step) {
    const absl::Status begun = session.Begin(batches[step]);
    REQUIRE_MESSAGE(begun.ok(), begun.ToString());
    if (step > 0) FinishInto(trained, session);
  }
  FinishInto(trained, session);
  const absl::StatusOr<StepResult> evaluated = session.Evaluate(batches.front());
  REQUIRE_MESSAGE(evaluated.ok(), evaluated.status().ToString());
  trained[0].push_back(evaluated->loss);
  AppendState(trained, session);
  return trained;
}

// A network whose batch can be run in parts.
Session InParts(Device& device) {
  Graph net({.name = "parts", .batch = 8});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 4, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu1", Relu{}, {x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  absl::StatusOr<Session> session =
      CreateSession(net, device, {.policy = "liveness", .sub_batches = 4, .strict = true});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

// The images of batches in the device's memory.
class OnDevice {
 public:
  OnDevice(Device& device, const std::vector<Batch>& batches) : batches_(batches) {
    for (Batch& batch : batches_) {
      const auto bytes = static_cast<int64_t>(batch.images.size() * sizeof(float));
      const Buffer host = device.Allocate(MemoryKind::kPinnedHost, bytes).value();
      std::memcpy(host.data(), batch.images.data(), batch.images.size() * sizeof(float));
      buffers_.push_back(device.Allocate(MemoryKind::kDevice, bytes).value());
      const std::byte* const place = buffers_.back().data();
      REQUIRE(device.Copy(Stream::kCompute, buffers_.back().data(), host.data(), bytes).ok());
      REQUIRE(device.Synchronize().ok());
      batch.borrowed = {reinterpret_cast<const float*>(place), batch.images.size()};
      batch.on_device = true;
      batch.images.clear();
    }
  }
  const std::vector<Batch>& batches() const { return batches_; }

 private:
  std::vector<Batch> batches_;
  std::vector<Buffer> buffers_;
};

}  // namespace

void CheckBorrowedBatches(Device& device) {
  std::vector<Batch> owned;
  for (uint64_t step = 0; step < kBorrowedSteps; ++step) owned.push_back(MakeBatch(step));
  std::vector<Batch> borrowed = owned;
  for (size_t i = 0; i < owned.size(); ++i) {
    borrowed[i].images.clear();
    borrowed[i].borrowed = owned[i].images;
  }
  const OnDevice on_device(device, owned);
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    PlannerOptions options = {.policy = "liveness", .strict = true};
    Session ahead = MakeSession(device, options, {}, layout);
    PlannerOptions tight = options;
    tight.budget_bytes = ahead.planning().minimum_budget_bytes;
    const Trained expected = TrainOn(std::move(ahead), owned);
    CHECK(AreSame(TrainOn(MakeSession(device, options, {}, layout), borrowed), expected));
    CHECK(
        AreSame(TrainOn(MakeSession(device, options, {}, layout), on_device.batches()), expected));
    CHECK(AreSame(TrainOn(MakeSession(device, tight, {}, layout), on_device.batches()), expected));
  }
  CHECK(AreSame(TrainOn(InParts(device), on_device.batches()), TrainOn(InParts(device), owned)));
}

}  // namespace neap
