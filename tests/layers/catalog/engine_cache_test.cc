#include "neap/layers/catalog/engine_cache.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "absl/hash/hash.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"

namespace neap {
namespace {

StepSignature ConvolutionOf(int64_t images, int64_t dilation = 1) {
  const TensorSpec x = {.shape = {images, 3, 8, 8}};
  const TensorSpec y = {.shape = {images, 4, 8, 8}};
  return {.layer = Convolution{.out_channels = 4, .dilation = dilation},
          .operands = {{{Slot::kInput, 0}, x, Access::kRead},
                       {{Slot::kParam, 0}, {.shape = {4, 3, 1, 1}}, Access::kRead},
                       {{Slot::kOutput, 0}, y, Access::kWrite}}};
}

TEST_CASE("signatures are equal if all their fields are, whichever layer object they come from") {
  const StepSignature one = ConvolutionOf(2);
  CHECK(one == ConvolutionOf(2));
  CHECK(absl::HashOf(one) == absl::HashOf(ConvolutionOf(2)));
  CHECK(one != ConvolutionOf(3));
  CHECK(one != ConvolutionOf(2, 2));  // same operands

  StepSignature other = one;
  other.layer = Dropout{};
  CHECK(one != other);
  other = one;
  other.layer_seed = 7;
  CHECK(one != other);
  other = one;
  other.operands[2].access = Access::kAccumulate;
  CHECK(one != other);
  other = one;
  other.operands[0].tensor.layout = Layout::kChannelsLast;
  CHECK(one != other);
}

TEST_CASE("engines are listed once per signature, but errors are not cached") {
  EngineCache cache;
  int asked = 0;
  const auto list = [&](const StepSignature& s) -> absl::StatusOr<std::vector<Engine>> {
    ++asked;
    if (s.operands[0].tensor.shape.n() > 8) return absl::UnimplementedError("too many");
    return std::vector<Engine>{{.id = "fast", .workspace_bytes = 64}, {.id = "slow"}};
  };
  for (int i = 0; i < 3; ++i) {
    const auto engines = cache.Get(ConvolutionOf(2), list);
    REQUIRE(engines.ok());
    REQUIRE(engines->size() == 2);
    CHECK(engines->front().id == "fast");
    CHECK(engines->front().workspace_bytes == 64);
  }
  CHECK(asked == 1);
  CHECK(cache.Get(ConvolutionOf(2, 2), list).ok());
  CHECK(asked == 2);
  CHECK(!cache.Get(ConvolutionOf(9), list).ok());
  CHECK(!cache.Get(ConvolutionOf(9), list).ok());
  CHECK(asked == 4);
}

TEST_CASE("threads that list and withdraw engines at the same time agree on the engines") {
  constexpr int64_t kSignatures = 50;
  EngineCache cache;
  const auto list = [](const StepSignature&) -> absl::StatusOr<std::vector<Engine>> {
    return std::vector<Engine>{{.id = "a"}, {.id = "b"}};
  };
  const auto withdraw = [&] {
    for (int64_t n = 1; n <= kSignatures; ++n) {
      if (!cache.Get(ConvolutionOf(n), list).ok()) continue;
      cache.Withdraw(ConvolutionOf(n), "a", absl::InternalError("no compiler")).IgnoreError();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(withdraw);
  for (std::thread& thread : threads) thread.join();
  for (int64_t n = 1; n <= kSignatures; ++n) {
    const auto engines = cache.Get(ConvolutionOf(n), list);
    REQUIRE(engines->size() == 1);
    CHECK(engines->front().id == "b");
  }
}

TEST_CASE("the last engine of a signature is not withdrawn: its build error is final") {
  const StepSignature signature = ConvolutionOf(2);
  const absl::Status reason = absl::InternalError("no compiler");
  EngineCache cache;
  const auto list = [](const StepSignature&) -> absl::StatusOr<std::vector<Engine>> {
    return std::vector<Engine>{{.id = "a"}, {.id = "b"}};
  };
  REQUIRE(cache.Get(signature, list).ok());
  CHECK(cache.Withdraw(signature, "c", reason) == reason);  // not listed
  CHECK(absl::IsAborted(cache.Withdraw(signature, "a", reason)));
  CHECK(cache.Get(signature, list)->front().id == "b");
  CHECK(cache.Withdraw(signature, "b", reason) == reason);
  CHECK(cache.Get(signature, list)->size() == 1);
}

TEST_CASE("the last engine that adds to gradients can be withdrawn") {
  const StepSignature step =
      SignatureOf(Convolution{.out_channels = 2}, Phase::kBackwardParams, {{{2, 2, 4, 4}}}).value();
  EngineCache cache;
  const auto list = [](const StepSignature&) -> absl::StatusOr<std::vector<Engine>> {
    return std::vector<Engine>{{.id = "a"}};
  };
  for (const StepSignature& signature : {step, AddingSignature(step)}) {
    REQUIRE(cache.Get(signature, list).ok());
    const bool adds = AddsToGradients(signature);
    CHECK(absl::IsAborted(cache.Withdraw(signature, "a", absl::InternalError(""))) == adds);
    CHECK(cache.Get(signature, list)->size() == (adds ? 0 : 1));
  }
}

}  // namespace
}  // namespace neap
