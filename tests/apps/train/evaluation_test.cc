#include "apps/train/evaluation.h"

#include <doctest/doctest.h>

namespace neap::testing {
namespace {

using apps::Accuracy;

TEST_CASE("top-5 counts by rank, and equal logits by class") {
  const Prediction prediction = {.shape = {3, 7, 1, 1},
                                 .logits = {3.0F, 2.0F, 1.5F, 1.2F, 1.0F, 0.8F, -0.5F,  //
                                            3.0F, 2.0F, 1.5F, 1.2F, 1.0F, 0.8F, -0.5F,  //
                                            2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F, 2.0F}};
  CHECK(apps::CorrectTop5(prediction, {0, 4, 4}) == 3);
  CHECK(apps::CorrectTop5(prediction, {5, 0, 6}) == 1);
  CHECK(apps::CorrectTop5(prediction, {5, 6, 5}) == 0);
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
