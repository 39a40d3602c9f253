// For test files called *_gpu_test.cc: a GPU, or a skip that everyone sees.
//
//   TEST_CASE("...") {
//     const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
//     if (!gpu) return;
//
// A run in which every case was skipped exits with 77, which ctest reports as "Skipped". With
// NEAP_REQUIRE_GPU set in the environment, a missing GPU is a failure instead.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "neap/core/device/cuda_device.h"

namespace neap::testing {

inline unsigned& SkippedCases() {
  static unsigned count = 0;
  return count;
}

// Null when there is no GPU, with a message that says why.
inline std::unique_ptr<CudaDevice> OpenGpuOrSkip() {
  absl::StatusOr<std::unique_ptr<CudaDevice>> gpu = CudaDevice::Open(0);
  if (gpu.ok()) return *std::move(gpu);
  const std::string why(gpu.status().message());
  const bool absent = absl::IsNotFound(gpu.status()) || absl::IsUnimplemented(gpu.status());
  if (!absent || std::getenv("NEAP_REQUIRE_GPU") != nullptr) {
    FAIL(why);
    return nullptr;
  }
  MESSAGE("SKIPPED, no GPU: ", why);
  ++SkippedCases();
  return nullptr;
}

// Ends the process when nothing was tested: doctest's own exit code would say that all went well.
struct SkipListener : doctest::IReporter {
  explicit SkipListener(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    if (SkippedCases() == 0 || SkippedCases() != stats.numTestCasesPassingFilters) return;
    std::printf("all %u test cases skipped: they need a GPU\n", SkippedCases());
    std::exit(77);
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("skip", 0, SkipListener);

}  // namespace neap::testing
