#include "neap/layers/fusion/sync_batch_norm.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

constexpr double kSummedFlopsPerElement = 4;
constexpr double kAppliedFlopsPerElement = 2;
constexpr double kGradientFlopsPerElement = 6;

TensorSpec StatisticsOf(const TensorSpec& x, int64_t ranks) {
  return {.shape = {ranks, RowLength(x.shape.c())}};
}

StepSpec ApplyForward(double flops) {
  return {.reads = {X(0), X(1), Param(0), Param(1)},
          .writes = {Y(), Saved(0), Saved(1)},
          .accumulates = {State(0), State(1)},
          .rerun_reads = {X(0), Param(0), Param(1), Saved(0), Saved(1)},
          .in_place = {{Y(), X(0)}},
          .accumulates_natively = {Slot::kState},
          .states_of_all_ranks = true,
          .flops = flops};
}

StepSpec ApplyBackward(double flops) {
  return {.phase = Phase::kBackwardData,
          .reads = {X(0), X(1), Dy(), Param(0), Saved(0), Saved(1)},
          .writes = {Dx(0), Dx(1), ParamGrad(0), ParamGrad(1)},
          .in_place = {{Dx(0), Dy()}},
          .summed = {Dx(1)},
          .flops = flops};
}

}  // namespace

std::string BatchNormStatistics::Parameters() const {
  return ParameterText({{"rank", int64_t{rank}}, {"ranks", int64_t{ranks}}});
}

absl::StatusOr<LayerSpec> BatchNormStatistics::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  if (rank < 0 || rank >= ranks)
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " is not one of ", ranks));
  const TensorSpec& x = context.inputs[0];
  const double flops = kSummedFlopsPerElement * static_cast<double>(x.elements());
  return LayerSpec{.output = StatisticsOf(x, ranks),
                   .steps = {{.reads = {X()}, .writes = {Y()}, .summed = {Y()}, .flops = flops},
                             {.phase = Phase::kBackwardData,
                              .reads = {X(), Y(), Dy()},
                              .writes = {Dx()},
                              .accumulates_natively = {Slot::kInputGrad},
                              .flops = flops}}};
}

absl::StatusOr<LayerSpec> BatchNormApply::Specify(const LayerContext& context) const {
  if (context.inputs.size() != 2)
    return absl::InvalidArgumentError("it has two inputs, x and the statistics");
  const TensorSpec& x = context.inputs[0];
  ASSIGN_OR_RETURN(LayerSpec spec, norm.Specify({.inputs = {x}}));
  spec.values_per_variance.reset();  // every rank has some
  spec.traits.coupled_by_statistics = false;
  if (context.inputs[1] != StatisticsOf(x, context.inputs[1].shape.n())) {
    return absl::InvalidArgumentError(
        absl::StrCat("its second input is ", context.inputs[1].ToString(),
                     ", not the statistics of ", x.shape.c(), " channels"));
  }
  const double elements = static_cast<double>(x.elements());
  spec.steps = {ApplyForward(kAppliedFlopsPerElement * elements),
                ApplyBackward(kGradientFlopsPerElement * elements)};
  return spec;
}

}  // namespace neap
