// What takes minutes says how far it is: on stderr, on one line that rewrites itself.
//
//   ProgressLine line("profile resnet50", "steps");
//   line.Show(112, 180, "840 engines");   // profile resnet50 [#####...] 112/180 steps, 840 engines
//   line.End();
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/profiler.h"

namespace neap::apps {

class ProgressLine {
 public:
  ProgressLine(std::string what, std::string unit)
      : what_(std::move(what)), unit_(std::move(unit)) {}
  void Show(int64_t done, int64_t total, const std::string& more = "");
  void End() const;

 private:
  std::string what_, unit_;
  int width_ = 0;  // of what is shown, to be written over
};

// Measures what is missing, with a line that begins "profile WHAT". Whether that was all; false
// after Ctrl-C.
absl::StatusOr<bool> MeasureAll(Profiler& profiler, const std::string& what);

}  // namespace neap::apps
