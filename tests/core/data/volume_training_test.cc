// A network that labels voxels, from files to its Dice.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "neap/core/data/confusion.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/loader.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/core/data/data_files.h"

namespace neap {
namespace {

using testing::LittleEndian;
using testing::NpyBytes;
using testing::WriteWithin;

constexpr int64_t kPatch = 6;
constexpr int64_t kVolumes = 4;

// Bright blocks, which are class 1, in dark volumes of 8x8x8.
void WriteBlocks(const ScratchDirectory& root) {
  for (int i = 0; i < kVolumes; ++i) {
    std::vector<float> voxels;
    std::vector<uint8_t> classes;
    for (int v = 0; v < 8 * 8 * 8; ++v) {
      const bool inside = v / 64 >= 2 + i % 2 && v / 8 % 8 >= 3 && v % 8 <= 4 + i / 2;
      classes.push_back(inside ? 1 : 0);
      voxels.push_back((inside ? 100.0F : 20.0F) + static_cast<float>(v * 7 % 11));
    }
    const std::string name = std::to_string(i) + ".npy";
    WriteWithin(root, "images/" + name, NpyBytes("<f4", "(8, 8, 8)", LittleEndian(voxels)));
    WriteWithin(root, "labels/" + name, NpyBytes("|u1", "(8, 8, 8)", LittleEndian(classes)));
  }
}

TEST_CASE("a network learns to label voxels, from patches at random, and is scored by its Dice") {
  const ScratchDirectory root;
  WriteBlocks(root);
  const auto scans =
      OpenDataset("volumes:" + root.path(), {.shape = {{.h = kPatch, .w = kPatch, .d = kPatch}}})
          .value();
  Graph net({.name = "voxels", .batch = kVolumes});
  std::string x = net.Input({1, kPatch, kPatch, kPatch});
  x = net.Add("conv", Convolution{.out_channels = 4}, {x});
  x = net.Add("relu", Relu{}, {x});
  x = net.Add("score", Convolution{.out_channels = scans->classes()}, {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {kPatch, kPatch, kPatch});
  const auto device = CpuDevice::Open();
  REQUIRE(device.ok());
  absl::StatusOr<Session> session =
      CreateSession(net, **device, {}, {.learning_rate = {.base = 0.1F}});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  const auto loader = Loader::Create(*scans, {.batch = kVolumes, .crop = true}).value();
  float first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    const Batch batch = loader->Next().value();
    const absl::StatusOr<float> loss = session->TrainStep(batch);
    REQUIRE_MESSAGE(loss.ok(), loss.status().ToString());
    (step == 0 ? first : last) = *loss;
  }
  CHECK(last < 0.5F * first);
  const Batch test = ReadBatch(*scans, 0, kVolumes).value();
  Prediction prediction;
  const absl::StatusOr<StepResult> result = session->Evaluate(test, &prediction);
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  Confusion confusion(scans->classes());
  confusion.Add(prediction.logits, test.labels, test.size);
  CHECK(*confusion.MeanForegroundDice() > 0.9);
  CHECK(*confusion.Accuracy() == doctest::Approx(static_cast<double>(result->correct) /
                                                 static_cast<double>(result->labels)));
}

}  // namespace
}  // namespace neap
