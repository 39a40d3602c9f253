#include "neap/layers/loss_steps.h"

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

TEST_CASE("a main loss writes its metrics, and an auxiliary one adds to them") {
  const std::vector<TensorSpec> inputs(2, {.shape = {4, 3, 1, 1}});
  const LayerSpec main = MeanSquaredError{}.Specify({.inputs = inputs}).value();
  CHECK(main.steps[0].writes == std::vector<Operand>{Y(), State(0)});
  CHECK(main.steps[0].accumulates.empty());
  CHECK_FALSE(main.states[0].accumulates);
  const LayerSpec auxiliary =
      MeanSquaredError{.auxiliary_weight = 0.3F}.Specify({.inputs = inputs}).value();
  CHECK(auxiliary.steps[0].writes == std::vector<Operand>{Y()});
  CHECK(auxiliary.steps[0].accumulates == std::vector<Operand>{State(0)});
  CHECK(auxiliary.states[0].accumulates);
  CHECK(auxiliary.steps[1].reads == main.steps[1].reads);
}

TEST_CASE("the weight of an auxiliary loss is positive") {
  const std::vector<TensorSpec> inputs = {{.shape = {4, 3, 1, 1}},
                                          {.shape = {4}, .dtype = DType::kInt32}};
  for (const float weight : {0.0F, -1.0F, std::numeric_limits<float>::infinity()}) {
    const absl::StatusOr<LayerSpec> spec =
        SoftmaxCrossEntropy{.auxiliary_weight = weight}.Specify({.inputs = inputs});
    REQUIRE(!spec.ok());
    CHECK(std::string(spec.status().message()).find("its auxiliary weight is ") == 0);
  }
}

}  // namespace
}  // namespace neap
