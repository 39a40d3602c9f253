#include "neap/layers/cpu/onednn.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"

namespace neap::cpu {
namespace {

const StepSignature kSignature =
    SignatureOf(Relu{}, Phase::kForward, {TensorSpec{.shape = {2, 3, 4, 4}}}).value();

// Two threads that make descriptors of convolutions in fp32 and bf16 at once get a kernel with
// wrong strides in 9 of 4000 descriptors, with oneDNN 2.6.3 on a CPU with AVX-512 BF16.
TEST_CASE("one thread at a time makes descriptors") {
  std::atomic<int> inside = 0, overlaps = 0;
  const auto list = [&]() -> Candidates {
    if (++inside > 1) ++overlaps;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --inside;
    return {};
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 5; ++call) CHECK(GuardOnednn(kSignature, list).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(overlaps == 0);
}

TEST_CASE("an error of oneDNN names the step, and the next thread can go on") {
  const auto fail = [](dnnl_status_t status) {
    return GuardOnednn(kSignature,
                       [status]() -> Candidates { throw dnnl::error(status, "no such kernel"); });
  };
  const absl::Status internal = fail(dnnl_runtime_error).status();
  CHECK(absl::IsInternal(internal));
  CHECK(internal.message().find(" forward: no such kernel") != std::string::npos);
  CHECK(absl::IsUnimplemented(fail(dnnl_unimplemented).status()));
}

}  // namespace
}  // namespace neap::cpu
