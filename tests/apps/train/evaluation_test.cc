#include "apps/train/evaluation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace neap::testing {
namespace {

using apps::Accuracy;

TEST_CASE("top-1 and top-5 count by rank, and equal probabilities by class") {
  const Prediction prediction = {
      .shape = {3, 7, 1, 1}, .probabilities = {0.30F, 0.20F, 0.15F, 0.12F, 0.10F, 0.08F, 0.05F,  //
                                               0.30F, 0.20F, 0.15F, 0.12F, 0.10F, 0.08F, 0.05F,  //
                                               0.20F, 0.20F, 0.20F, 0.20F, 0.20F, 0.00F, 0.00F}};
  const auto counted = [&](const std::vector<int32_t>& labels) {
    Accuracy accuracy;
    apps::AddPrediction(prediction, labels, accuracy);
    return accuracy;
  };
  CHECK(counted({0, 0, 0}).correct == 3);
  CHECK(counted({0, 4, 1}).correct == 1);
  CHECK(counted({0, 4, 4}).correct_top5 == 3);
  CHECK(counted({5, 6, 5}).correct_top5 == 0);
  CHECK(counted({0, 4, 1}).loss ==
        doctest::Approx(-std::log(0.3) - std::log(0.1) - std::log(0.2)).epsilon(1e-6));
  CHECK(std::isfinite(counted({0, 0, 6}).loss));
}

TEST_CASE("the text and the JSON have top-5 where it was counted") {
  Accuracy accuracy = {.correct = 3, .images = 4, .labels = 4, .loss = 0.5};
  CHECK(apps::ToText(accuracy) == "75.00% (3 of 4 images), loss 0.5");
  CHECK(!apps::ToJson(accuracy).contains("top5_accuracy"));
  accuracy.correct_top5 = 4;
  CHECK(apps::ToText(accuracy) == "75.00% (3 of 4 images), top-5 100.00%, loss 0.5");
  CHECK(apps::ToJson(accuracy).at("top5_accuracy") == 1);
}

}  // namespace
}  // namespace neap::testing
