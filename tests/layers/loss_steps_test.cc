#include "neap/layers/steps/loss_steps.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "neap/core/step/operands.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap {
namespace {

using namespace operands;

TEST_CASE("a loss writes its metrics and has its weight") {
  const std::vector<TensorSpec> inputs(2, {.shape = {4, 3, 1, 1}});
  const LayerSpec usual = MeanSquaredError{}.Specify({.inputs = inputs}).value();
  CHECK(usual.steps[0].writes == std::vector<Operand>{Y(), State(0)});
  CHECK(usual.steps[0].accumulates.empty());
  CHECK_FALSE(usual.states[0].accumulates);
  CHECK(usual.loss_weight == 1.0F);
  const LayerSpec weighted = MeanSquaredError{.weight = 0.3F}.Specify({.inputs = inputs}).value();
  CHECK(weighted.steps[0].writes == usual.steps[0].writes);
  CHECK(weighted.loss_weight == 0.3F);
}

TEST_CASE("the weight of a loss is positive") {
  const std::vector<TensorSpec> inputs = {{.shape = {4, 3, 1, 1}},
                                          {.shape = {4}, .dtype = DType::kInt32}};
  for (const float weight : {0.0F, -1.0F, std::numeric_limits<float>::infinity()}) {
    const absl::StatusOr<LayerSpec> spec =
        SoftmaxCrossEntropy{.weight = weight}.Specify({.inputs = inputs});
    REQUIRE(!spec.ok());
    CHECK(std::string(spec.status().message()).find("its weight is ") == 0);
  }
}

}  // namespace
}  // namespace neap
