#include "neap/core/run/learning_rate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>

namespace neap {

using Decay = LearningRate::Decay;

TEST_CASE("the rate rises from the warm-up's start, and is the base at its end") {
  const LearningRate rate = {.base = 0.5F, .warmup_steps = 4, .warmup_start = 0.2F};
  CHECK(rate.At(0) == doctest::Approx(0.5 * (0.2 + 0.8 / 4)));
  CHECK(rate.At(3) == 0.5F);
  CHECK(rate.At(1000) == 0.5F);
  CHECK(LearningRate{.base = 0.5F, .warmup_steps = 4}.At(0) == 0.125F);
}

TEST_CASE("steps, and an exponential decay through the same points") {
  const LearningRate steps = {
      .base = 0.5F, .decay = Decay::kStep, .period_steps = 10, .factor = 0.5F};
  CHECK(steps.At(9) == 0.5F);
  CHECK(steps.At(10) == 0.25F);
  CHECK(steps.At(25) == 0.125F);
  LearningRate after_warmup = steps;
  after_warmup.warmup_steps = 4;
  CHECK(after_warmup.At(13) == 0.5F);
  CHECK(after_warmup.At(14) == 0.25F);
  LearningRate exponential = steps;
  exponential.decay = Decay::kExponential;
  CHECK(exponential.At(0) == 0.5F);
  CHECK(exponential.At(5) == doctest::Approx(0.5 * std::sqrt(0.5)));
  CHECK(exponential.At(20) == 0.125F);
  exponential.warmup_steps = 4;
  CHECK(exponential.At(4) == 0.5F);
  CHECK(exponential.At(14) == 0.25F);
}

TEST_CASE("half a cosine begins when the warm-up has ended, and stays at the minimum") {
  const LearningRate rate = {.base = 0.5F,
                             .minimum = 0.1F,
                             .warmup_steps = 10,
                             .decay = Decay::kCosine,
                             .period_steps = 110};
  CHECK(rate.At(10) == 0.5F);
  CHECK(rate.At(60) == doctest::Approx(0.3));
  CHECK(rate.At(35) == doctest::Approx(0.3 + 0.2 * std::cos(std::numbers::pi / 4)));
  CHECK(rate.At(110) == doctest::Approx(0.1));
  CHECK(rate.At(1000) == doctest::Approx(0.1));
}

TEST_CASE("rates out of range are refused, and their field is named") {
  const auto refused = [](const LearningRate& rate, const std::string& field) {
    const absl::Status status = CheckLearningRate(rate);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()).find("learning rate: " + field) == 0);
  };
  refused({.base = -1}, "base -1");
  refused({.minimum = std::numeric_limits<float>::infinity()}, "minimum inf");
  refused({.warmup_start = -1}, "warmup_start -1");
  refused({.warmup_steps = -1}, "warmup_steps -1");
  refused({.factor = -1}, "factor -1");
  CHECK(CheckLearningRate({}).ok());
  const LearningRate early = {.warmup_steps = 5, .decay = Decay::kCosine, .period_steps = 5};
  refused(early, "the cosine ends with step 5, but the warm-up with step 5");
}

TEST_CASE("a rate as text is read as an equal one, and nothing else is") {
  const LearningRate rate = {.base = 0.1F,
                             .minimum = 1e-7F,
                             .warmup_steps = 12,
                             .warmup_start = 0.01F,
                             .decay = Decay::kCosine,
                             .period_steps = int64_t{1} << 40,
                             .factor = 1.0F / 3};
  const std::string text = ToString(rate);
  CHECK(text ==
        "base 0.100000001 minimum 1.00000001e-07 warmup 12 from 0.00999999978 decay 3 period "
        "1099511627776 factor 0.333333343");
  const absl::StatusOr<LearningRate> read = ParseLearningRate(text);
  REQUIRE(read.ok());
  CHECK(*read == rate);
  for (const std::string& other :
       {std::string(), std::string("0.1"), text + " ", "low" + text.substr(4),
        ToString({.decay = static_cast<Decay>(4)}), ToString({.base = -1}),
        std::string(100000, ' ')})
    CHECK(absl::IsInvalidArgument(ParseLearningRate(other).status()));
}

}  // namespace neap
