// What takes minutes says how far it is, on stderr: on a terminal by one line that rewrites itself,
// in a log by few lines.
//
//   ProgressLine line("profile resnet50", "steps");
//   line.Show(112, 180, "840 engines");   // profile resnet50 [#####...] 112/180 steps, 840 engines
//   line.End();                           // in a log: profile resnet50: 112/180 steps, 840 engines
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/layers/profile/profiler.h"

namespace neap::apps {

// When a log gets another line: the first at once, then one for every tenth of all that is done,
// but none within half a minute of the last.
class LogPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  bool IsDue(int64_t done, int64_t total, Time now);

 private:
  std::optional<Time> last_;
  int64_t tenths_ = 0;  // done at the last
};

// What fits a line of the terminal: from its end no carriage return goes back to the beginning.
// Everything where `file` is no terminal, or one that does not know.
size_t TerminalColumns(int file);

class ProgressLine {
 public:
  ProgressLine(std::string what, std::string unit);
  ~ProgressLine() { End(); }  // an error message begins a line of its own
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(int64_t done, int64_t total, const std::string& more = "");
  // A message between two of them.
  void Say(const std::string& message);
  // What was shown last stays; in a log it is written if it was not.
  void End();

 private:
  const std::string what_, unit_;
  const bool is_terminal_;
  LogPace pace_;
  std::string shown_;     // last
  bool is_open_ = false;  // on a terminal it has to be ended, in a log it has to be written
};

// Measures what is missing, with a line that begins "profile WHAT", until all is done or, between
// two samples, Ctrl-C.
absl::Status MeasureAll(Profiler& profiler, const std::string& what);

}  // namespace neap::apps
