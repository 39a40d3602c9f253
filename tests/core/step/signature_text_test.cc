#include "neap/core/step/signature_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "neap/core/program/program.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "tests/random_graph.h"

namespace neap {
namespace {

using namespace operands;

TensorSpec Fp32(Shape shape, Layout layout = Layout::kChannelsFirst) {
  return {.shape = std::move(shape), .layout = layout};
}

StepSignature BackwardParams(int64_t batch) {
  return {.layer = Convolution{.out_channels = 8, .kernel = {3, 5}, .padding = {1, 2}},
          .phase = Phase::kBackwardParams,
          .divisible = true,
          .multiplies = true,
          .operands = {{Dy(), Fp32({batch, 8, 6, 7}), Access::kRead},
                       {X(), Fp32({batch, 4, 6, 7}), Access::kRead},
                       {ParamGrad(0), Fp32({8, 4, 3, 5}), Access::kWrite},
                       {ParamGrad(1), Fp32({8}), Access::kWrite}}};
}

TEST_CASE("the text says type, phase, parameters and operands, with N for the batch") {
  CHECK(SignatureText(BackwardParams(8)) ==
        "convolution backward_params training out_channels=8 kernel=3x5 stride=1x1 padding=1x2 "
        "dilation=1x1 groups=1 bias=true input[0]=Nx4x6x7:fp32:nchw "
        "output_grad[0]=Nx8x6x7:fp32:nchw param_grad[0]:=8x4x3x5:fp32:nchw "
        "param_grad[1]:=8:fp32:nchw");
}

TEST_CASE("micro-batches share the text and differ in the batch") {
  const StepSignature whole = BackwardParams(64);
  CHECK(BatchOf(whole) == 64);
  for (const int64_t batch : {1, 4, 8, 63, 1024}) {
    CAPTURE(batch);
    CHECK(WithBatch(whole, batch) == BackwardParams(batch));
    CHECK(BatchOf(WithBatch(whole, batch)) == batch);
    CHECK(SignatureText(WithBatch(whole, batch)) == SignatureText(whole));
  }
}

TEST_CASE("sequences and volumes have the names of their layouts, and images those of before") {
  const auto text = [](const Layer& layer, const TensorSpec& x) {
    return SignatureText(SignatureOf(layer, Phase::kForward, {x}).value());
  };
  CHECK(text(Convolution{.out_channels = 4, .kernel = Extents::Of({5})}, Fp32({2, 3, 16})) ==
        "convolution forward training out_channels=4 kernel=5 stride=1x1 padding=0x0 dilation=1x1"
        " groups=1 bias=true input[0]=Nx3x16:fp32:ncw output[0]:=Nx4x12:fp32:ncw"
        " param[0]=4x3x5:fp32:ncw param[1]=4:fp32:nchw");
  CHECK(text(MaxPool{.kernel = {3, 2, 1}, .stride = 1}, Fp32({2, 3, 4, 5, 6})) ==
        "max_pool forward training kernel=3x2x1 stride=1x1 padding=0x0"
        " input[0]=Nx3x4x5x6:fp32:ncdhw output[0]:=Nx3x2x4x6:fp32:ncdhw"
        " saved[0]:=2x3x2x4x6:uint8:ncdhw");
  CHECK(text(Relu{}, {{2, 3, 4, 5, 6}, DType::kBf16, Layout::kChannelsLast}) ==
        "relu forward training input[0]=Nx3x4x5x6:bf16:ndhwc output[0]:=Nx3x4x5x6:bf16:ndhwc");
  CHECK(text(Relu{}, Fp32({2, 3, 4, 5})) ==
        "relu forward training input[0]=Nx3x4x5:fp32:nchw output[0]:=Nx3x4x5:fp32:nchw");
}

TEST_CASE("an operand whose first extent is not the batch keeps it") {
  StepSignature signature = BackwardParams(64);
  signature.operands.push_back({X(1), Fp32({3, 4}), Access::kRead});
  CHECK(SignatureText(signature).find("input[1]=3x4:fp32:nchw") != std::string::npos);
  CHECK(WithBatch(signature, 2).operands.back().tensor.shape == Shape{3, 4});
}

TEST_CASE("the order of the operands does not matter") {
  StepSignature turned = BackwardParams(2);
  std::reverse(turned.operands.begin(), turned.operands.end());
  CHECK(SignatureText(turned) == SignatureText(BackwardParams(2)));
}

TEST_CASE("what takes no time is not in the text") {
  StepSignature other = BackwardParams(2);
  other.layer_seed = 77;
  other.optimizer = {.momentum = 0.5F, .weight_decay = 0.25F};
  CHECK(SignatureText(other) == SignatureText(BackwardParams(2)));
}

TEST_CASE("each part of a signature that determines the kernel is in the text") {
  const std::vector<std::function<void(StepSignature&)>> changes = {
      [](StepSignature& s) { s.layer = Convolution{.out_channels = 8}; },
      [](StepSignature& s) { s.layer = Relu{}; },
      [](StepSignature& s) { s.phase = Phase::kBackwardData; },
      [](StepSignature& s) {
        s.layer = Relu{};
        s.divisible = s.multiplies = false;
        s.mode = Mode::kInference;
      },
      [](StepSignature& s) { s.rerun = true; },
      [](StepSignature& s) { s.operands.pop_back(); },
      [](StepSignature& s) { s.operands[2].access = Access::kAccumulate; },
      [](StepSignature& s) { s.operands[2].access = Access::kRead; },
      [](StepSignature& s) { s.operands[2].operand.slot = Slot::kParam; },
      [](StepSignature& s) { s.operands[3].operand.index = 2; },
      [](StepSignature& s) {
        s.operands[1].tensor.shape = {64, 4, 6, 8};
      },
      [](StepSignature& s) {
        s.operands[2].tensor.shape = {64, 4, 3, 5};
      },
      [](StepSignature& s) { s.operands[2].tensor.dtype = DType::kTf32; },
      [](StepSignature& s) { s.operands[2].tensor.layout = Layout::kChannelsLast; }};
  absl::flat_hash_map<std::string, size_t> seen = {{SignatureText(BackwardParams(64)), 0}};
  for (size_t i = 0; i < changes.size(); ++i) {
    StepSignature changed = BackwardParams(64);
    changes[i](changed);
    CAPTURE(i);
    CHECK(seen.try_emplace(SignatureText(changed), i + 1).second);
  }
}

TEST_CASE("a convolution is the same in training and in inference") {
  StepSignature forward = BackwardParams(64);
  forward.phase = Phase::kForward;
  StepSignature inference = forward;
  inference.mode = Mode::kInference;
  CHECK(SignatureText(inference) == SignatureText(forward));
}

TEST_CASE("adding gradients has the text of a sum of two inputs, under which it was measured") {
  CHECK(SignatureText(AdditionSignature(Fp32({8, 3, 2, 2}))) ==
        "add forward training input[0]=Nx3x2x2:fp32:nchw input[1]=Nx3x2x2:fp32:nchw "
        "output[0]:=Nx3x2x2:fp32:nchw");
  const TensorSpec x = Fp32({8, 3, 2, 2}, Layout::kChannelsLast);
  CHECK(SignatureText(AdditionSignature(x)) ==
        SignatureText(SignatureOf(Add{}, Phase::kForward, {x, x}).value()));
  CHECK(BatchOf(AdditionSignature(x)) == 8);
}

StepSignature Update(const Layer& layer, bool momentum) {
  StepSignature signature = {.layer = layer,
                             .phase = Phase::kUpdate,
                             .optimizer = {.momentum = momentum ? 0.9F : 0.0F},
                             .operands = {{Param(0), Fp32({8}), Access::kAccumulate},
                                          {ParamGrad(0), Fp32({8}), Access::kRead}}};
  if (momentum) signature.operands.push_back({Moment(0), Fp32({8}), Access::kAccumulate});
  return signature;
}

TEST_CASE("an update is the same for every layer, but not with and without momentum") {
  CHECK(SignatureText(Update(BatchNorm{}, true)) ==
        "sgd update training param[0]+=8:fp32:nchw param_grad[0]=8:fp32:nchw "
        "optimizer[0]+=8:fp32:nchw");
  CHECK(SignatureText(Update(FullyConnected{8}, true)) == SignatureText(Update(BatchNorm{}, true)));
  CHECK(SignatureText(Update(BatchNorm{}, false)) != SignatureText(Update(BatchNorm{}, true)));
  CHECK(BatchOf(Update(BatchNorm{}, true)) == 1);
}

// The signature without fields that do not affect the time.
StepSignature Essence(StepSignature signature) {
  if (signature.phase == Phase::kUpdate) signature.layer = Relu{};
  signature.layer_seed = 0;
  signature.optimizer = {};
  std::sort(signature.operands.begin(), signature.operands.end(), [](const auto& a, const auto& b) {
    return std::pair(a.operand.slot, a.operand.index) < std::pair(b.operand.slot, b.operand.index);
  });
  return signature;
}

TEST_CASE("in random networks steps with one text and one batch are the same but for seeds") {
  absl::flat_hash_map<std::string, StepSignature> seen;
  int shared = 0;
  for (uint32_t i = 0; i < 4 * testing::RandomSeeds(20); ++i) {
    const uint32_t seed = i / 4;
    CAPTURE(seed);
    const Graph graph = testing::RandomGraph(
        seed, {.batch = i % 2 == 0 ? 2 : 8,
               .image_norms = seed % 2 == 1,
               .attention = seed % 3 == 1,
               .layout = i % 4 < 2 ? Layout::kChannelsFirst : Layout::kChannelsLast});
    const Program program = BuildProgram(graph, {}).value();
    for (const Step& step : program.steps) {
      for (const bool rerun : {false, true}) {
        if (rerun && step.phase != Phase::kForward) continue;
        const StepSignature signature = program.Signature(step, rerun);
        const std::string text = absl::StrCat(SignatureText(signature), " @", BatchOf(signature));
        CAPTURE(text);
        const auto [entry, is_new] = seen.try_emplace(text, Essence(signature));
        shared += is_new ? 0 : 1;
        CHECK(entry->second == Essence(signature));
      }
    }
  }
  CHECK(shared > 0);
}

}  // namespace
}  // namespace neap
