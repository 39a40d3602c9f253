#include "apps/train/evaluation.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

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
  CHECK(accuracy.score() == 0.75);
  CHECK(apps::ToText(accuracy) == "75.00% (3 of 4 images), loss 0.5");
  CHECK(!apps::ToJson(accuracy).contains("top5_accuracy"));
  accuracy.correct_top5 = 4;
  CHECK(apps::ToText(accuracy) == "75.00% (3 of 4 images), top-5 100.00%, loss 0.5");
  CHECK(apps::ToJson(accuracy).at("top5_accuracy") == 1);
}

TEST_CASE("labelled pixels have a mean IoU, and voxels a mean Dice, in text and JSON") {
  Accuracy accuracy = {.correct = 13, .images = 1, .labels = 16, .loss = 0.7};
  accuracy.unit = "pixels";
  accuracy.confusion.emplace(3);
  accuracy.confusion->AddCounts({9, 1, 0, 0, 2, 4, 0, 0, 0, 0, 0, 0});
  CHECK(apps::ToText(accuracy) == "81.25% (13 of 16 pixels), mean IoU 66.07%, loss 0.7");
  CHECK(accuracy.score() == doctest::Approx((9.0 / 12 + 4.0 / 7) / 2));
  accuracy.unit = "voxels";
  CHECK(apps::ToText(accuracy) ==
        "81.25% (13 of 16 voxels), mean Dice 72.73% without class 0, loss 0.7");
  CHECK(accuracy.score() == doctest::Approx(8.0 / 11));
  const nlohmann::json json = nlohmann::json::parse(apps::ToJson(accuracy).dump());
  CHECK(json.at("mean_iou") == doctest::Approx((9.0 / 12 + 4.0 / 7) / 2));
  CHECK(json.at("mean_foreground_dice") == doctest::Approx(8.0 / 11));
  CHECK(json.at("class_iou").at(1) == doctest::Approx(4.0 / 7));
  CHECK(json.at("class_iou").at(2).is_null());
  CHECK(json.at("class_dice").size() == 3);
}

TEST_CASE("tokens have a perplexity, in text and JSON") {
  Accuracy accuracy = {.correct = 4, .images = 1, .labels = 10, .loss = 3};
  CHECK(!apps::ToJson(accuracy).contains("perplexity"));
  accuracy.unit = "tokens";
  CHECK(apps::ToText(accuracy) == "40.00% (4 of 10 tokens), loss 3, perplexity 20.0855");
  CHECK(apps::ToJson(accuracy).at("perplexity") == doctest::Approx(20.0855));
}

TEST_CASE("NaN is not among the five most probable classes") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Prediction prediction = {.shape = {2, 3, 1, 1}, .logits = {nan, nan, nan, nan, 1.0F, nan}};
  CHECK(apps::CorrectTop5(prediction, {0, 1}) == 1);
  CHECK(apps::CorrectTop5(prediction, {kNoLabel, 1}) == 1);
}

TEST_CASE("a loss that is not finite is said in words, and is null in JSON") {
  const Accuracy accuracy = {.correct = 1,
                             .images = 4,
                             .labels = 4,
                             .loss = std::numeric_limits<double>::infinity(),
                             .not_finite = "the output for image 2 is not finite"};
  CHECK(apps::ToText(accuracy) ==
        "25.00% (1 of 4 images), loss inf (the output for image 2 is not finite)");
  const nlohmann::json json = nlohmann::json::parse(apps::ToJson(accuracy).dump());
  CHECK(json.at("loss").is_null());
  CHECK(json.at("not_finite") == "the output for image 2 is not finite");
}

}  // namespace
}  // namespace neap::testing
