// Progress of long work on stderr: on a terminal as one line that is rewritten in place, in a log
// as a few lines.
//
//   ProgressLine line("profile resnet50", "steps");
//   line.Show(112, 180, "840 engines");   // profile resnet50 [#####...] 112/180 steps, 840 engines
//   line.End();                           // in a log: profile resnet50: 112/180 steps, 840 engines
//
//   StatusLine search("peak-batch resnet50");
//   search.Show("trying batch 812");
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

// Decides when a log gets another line: the first at once, then one for every tenth of the work,
// but at least half a minute after the last line.
class LogPace {
 public:
  using Time = std::chrono::steady_clock::time_point;
  bool IsDue(int64_t done, int64_t total, Time now);

 private:
  std::optional<Time> last_;
  int64_t tenths_ = 0;  // of the work, at the last line
};

// The width of a terminal line less one column: a carriage return does not go back past a line that
// has wrapped. Unlimited if `file` is not a terminal or its width is unknown.
size_t TerminalColumns(int file);

class ProgressLine {
 public:
  ProgressLine(std::string what, std::string unit);
  ~ProgressLine() { End(); }  // an error message begins a line of its own
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(int64_t done, int64_t total, const std::string& more = "");
  // Prints a message between two updates.
  void Say(const std::string& message);
  // Keeps the last line on the terminal; writes it to a log if it is not there yet.
  void End();

 private:
  const std::string what_, unit_;
  const bool is_terminal_;
  LogPace pace_;
  std::string shown_;     // last
  bool is_open_ = false;  // the line must be ended (terminal) or written (log)
};

// Shows what a search of unknown length is doing: on a terminal one line that is rewritten in place
// and cleared at the end; in a log a line, if the last one was half a minute ago.
class StatusLine {
 public:
  explicit StatusLine(std::string what);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void Show(const std::string& now);

 private:
  const std::string what_;
  const bool is_terminal_;
  std::chrono::steady_clock::time_point said_;  // in a log; at first, when the search began
  size_t shown_ = 0;                            // columns on a terminal
};

// Measures what is missing, with a progress line that begins "profile WHAT", until everything is
// measured or Ctrl-C arrives between two samples.
absl::Status MeasureAll(Profiler& profiler, const std::string& what);

}  // namespace neap::apps
