#include "tests/layers/reference_concat_batch_norms.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "neap/layers/fusion/concat_batch_norms.h"
#include "neap/layers/fusion/norm_pass.h"
#include "tests/layers/reference_batch_norm.h"

namespace neap::testing {

// Each part by itself, as the only input of a batch norm.
Values ReferenceConcatBatchNorms(const StepSignature& signature, const Values& given) {
  using namespace operands;
  const ConcatBatchNorms& layer = *signature.layer.As<ConcatBatchNorms>();
  const bool forward = signature.phase == Phase::kForward;
  const Shape& concat = signature.Spec(forward ? Y() : Dy()).shape;
  const size_t pixels = static_cast<size_t>(concat.positions());
  const std::vector<ConcatInput> inputs = ConcatInputs(layer, signature);
  Values result;
  if (forward) result[Y()].resize(static_cast<size_t>(concat.elements()));
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const ConcatInput& place = inputs[static_cast<size_t>(i)];
    const size_t run = static_cast<size_t>(place.channels) * pixels;
    const auto at = [&](size_t element) {
      return element / run * static_cast<size_t>(concat.c()) * pixels +
             static_cast<size_t>(place.first) * pixels + element % run;
    };
    const TensorSpec& x = signature.Spec(forward ? X(i) : Dx(i));
    Values of_part;
    if (!forward) {
      std::vector<double>& dy = of_part[Dy()];
      for (size_t k = 0; k < static_cast<size_t>(x.elements()); ++k)
        dy.push_back(given.at(Dy())[at(k)]);
      result[Dx(i)] = dy;
    }
    if (place.part == nullptr) {
      for (size_t k = 0; forward && k < given.at(X(i)).size(); ++k)
        result[Y()][at(k)] = given.at(X(i))[k];
      continue;
    }
    NormPass norm = {.norm = place.part->norm};
    if (place.part->relu) norm.activation = Relu{};
    StepSignature alone = signature;
    alone.layer = norm;
    alone.operands = {{X(), x}, {forward ? Y() : Dy(), x}};
    of_part[X()] = given.at(X(i));
    const Slot slots[] = {Slot::kParam, Slot::kState, Slot::kSaved};
    for (const Slot slot : slots) {
      for (int k = 0; k < 2; ++k) {
        if (given.contains({slot, 2 * i + k})) of_part[{slot, k}] = given.at({slot, 2 * i + k});
      }
    }
    for (auto& [operand, values] : ReferenceBatchNorm(alone, of_part)) {
      if (operand == Y()) {
        for (size_t k = 0; k < values.size(); ++k) result[Y()][at(k)] = values[k];
      } else if (operand == Dx()) {
        result[Dx(i)] = values;
      } else {
        result[{operand.slot, 2 * i + operand.index}] = values;
      }
    }
  }
  return result;
}

}  // namespace neap::testing
