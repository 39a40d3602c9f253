#include "tests/layers/loss_checks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "neap/core/input/batch.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::testing {
namespace {

using namespace operands;

// The mean loss and the number of correct labels of two images of three classes, for both of which
// class 2 has the largest output.
std::vector<double> Metrics(Backend& backend, const DeviceAccess& access, double first,
                            double second) {
  const std::vector<TensorSpec> inputs = {{.shape = {2, 3, 1, 1}},
                                          {.shape = {2}, .dtype = DType::kInt32}};
  const LayerSpec spec = SoftmaxCrossEntropy{}.Specify({.inputs = inputs}).value();
  const StepSignature signature =
      SignatureOf(spec.steps[0], {.layer = SoftmaxCrossEntropy{}, .spec = spec, .inputs = inputs});
  const absl::StatusOr<Values> y =
      RunStep(backend, access, signature, {{X(0), {1, 2, 3, 1, 2, 3}}, {X(1), {first, second}}});
  REQUIRE_MESSAGE(y.ok(), y.status().ToString());
  return y->at(State(0));
}

}  // namespace

void CheckLabelsOutsideClasses(Backend& backend, const DeviceAccess& access) {
  for (double label : {-2.0, 3.0}) {
    const std::vector<double> metrics = Metrics(backend, access, 2, label);
    CHECK(std::isnan(metrics[0]));
    CHECK(metrics[1] == 1);
  }
}

void CheckImagesWithoutLabels(Backend& backend, const DeviceAccess& access) {
  const std::vector<double> one = Metrics(backend, access, 2, kNoLabel);
  CHECK(one[0] == doctest::Approx(Metrics(backend, access, 2, 2)[0] / 2));  // the mean over both
  CHECK(one[1] == 1);
  CHECK(Metrics(backend, access, kNoLabel, kNoLabel) == std::vector<double>{0, 0});
}

}  // namespace neap::testing
