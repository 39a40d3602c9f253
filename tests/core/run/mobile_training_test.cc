// A small MobileNetV2 learns digits, and trains to the same bits in every budget.
#include <doctest/doctest.h>

#include <string>

#include "neap/core/vision/dataset.h"
#include "neap/core/vision/loader.h"
#include "neap/memory/create_session.h"
#include "neap/nets/mobile/mobilenet_v2.h"
#include "neap/nets/mobile/mobilenet_v3.h"
#include "tests/core/run/random_training.h"
#include "tests/small_training.h"
#include "tests/source_tree.h"

namespace neap {
namespace {

constexpr int64_t kMobileBatch = 32;

nets::MobileNetV2Options Digits() {
  return {
      .width = 0.25, .image = 8, .classes = 10, .batch = kMobileBatch, .channels = 1, .dropout = 0};
}

std::string DigitsPath() { return "idx:" + (SourceTree() / "examples/data/digits").string(); }

// The right predictions of 10 batches of the test set, in percent.
double Accuracy(Session& session) {
  const auto digits = OpenDataset(DigitsPath(), {.split = Split::kTest});
  REQUIRE(digits.ok());
  const auto loader = Loader::Create(**digits, {.batch = kMobileBatch});
  REQUIRE(loader.ok());
  int64_t right = 0;
  for (int i = 0; i < 10; ++i) {
    const absl::StatusOr<Batch> batch = (*loader)->Next();
    REQUIRE(batch.ok());
    right += session.Evaluate(*batch).value().correct;
  }
  return 100.0 * static_cast<double>(right) / (10 * kMobileBatch);
}

}  // namespace

TEST_CASE("a small MobileNetV2 learns 8x8 digits in its smallest budget") {
  const auto device = OpenCpu();
  const Graph net = nets::MobileNetV2(Digits());
  const TrainingOptions training = {.learning_rate = {.base = 0.01F}};
  const auto planned = CreateSession(net, *device, {}, training);
  REQUIRE(planned.ok());
  const int64_t minimum = planned->planning().minimum_budget_bytes;
  auto session = CreateSession(net, *device, {.budget_bytes = minimum}, training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const auto digits = OpenDataset(DigitsPath(), {});
  REQUIRE_MESSAGE(digits.ok(), digits.status().ToString());
  const auto loader = Loader::Create(**digits, {.batch = kMobileBatch});
  REQUIRE(loader.ok());
  constexpr int kSteps = 200, kWindow = 20;
  float first = 0, last = 0;
  for (int step = 0; step < kSteps; ++step) {
    const absl::StatusOr<Batch> batch = (*loader)->Next();
    REQUIRE(batch.ok());
    const float loss = session->TrainStep(*batch).value();
    if (step < kWindow) first += loss / kWindow;
    if (step >= kSteps - kWindow) last += loss / kWindow;
  }
  MESSAGE("loss ", first, " to ", last);
  CHECK(last < 0.8F * first);
  const double accuracy = Accuracy(*session);
  MESSAGE(accuracy, " % right");
  CHECK(accuracy > 25);  // by chance 10
}

TEST_CASE("small MobileNets train to the same bits under every policy, with and without a budget") {
  const auto device = OpenCpu();
  nets::MobileNetV2Options v2 = Digits();
  v2.batch = 2;
  v2.classes = 4;
  v2.dropout = 0.2F;
  const nets::MobileNetV3Options v3 = {
      .large = false, .image = 16, .classes = 4, .batch = 2, .channels = 1};
  for (const Graph& net : {nets::MobileNetV2(v2), nets::MobileNetV3(v3)}) {
    CAPTURE(net.options().name);
    const testing::TrainedState want =
        testing::TrainRandom(net, *device, {.policy = "keep-all", .in_place = false}, nullptr);
    testing::CheckPlans(net, *device, want);
  }
}

}  // namespace neap
