// Skips test cases visibly that need something this machine may lack.
//
//   if (!gpu) return SkipCase("no GPU");
//
// A run in which every case was skipped exits with 77, which ctest reports as "Skipped".
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace neap::testing {

inline unsigned& SkippedCases() {
  static unsigned count = 0;
  return count;
}

inline void SkipCase(const std::string& why) {
  MESSAGE("SKIPPED, ", why);
  ++SkippedCases();
}

// Ends the process if all cases were skipped: doctest's own exit code would report success.
struct SkipListener : doctest::IReporter {
  explicit SkipListener(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    if (SkippedCases() == 0 || SkippedCases() != stats.numTestCasesPassingFilters) return;
    std::printf("all %u test cases skipped: see above for what they need\n", SkippedCases());
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
