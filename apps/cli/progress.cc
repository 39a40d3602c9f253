#include "apps/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {
namespace {

constexpr auto kLogInterval = std::chrono::seconds(30);

std::string Bar(int64_t done, int64_t total) {
  constexpr int64_t kWidth = 32;
  const auto filled = static_cast<size_t>(done * kWidth / std::max<int64_t>(total, 1));
  return absl::StrCat("[", std::string(filled, '#'), std::string(kWidth - filled, '.'), "]");
}

}  // namespace

size_t TerminalColumns(int file) {
  winsize size = {};
  const bool is_known = ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_known ? size_t{size.ws_col} - 1 : std::numeric_limits<size_t>::max();
}

bool LogPace::IsDue(int64_t done, int64_t total, Time now) {
  const int64_t tenths = done * 10 / std::max<int64_t>(total, 1);
  if (last_.has_value() && (tenths <= tenths_ || now - *last_ < kLogInterval)) return false;
  last_ = now;
  tenths_ = tenths;
  return true;
}

ProgressLine::ProgressLine(std::string what, std::string unit)
    : what_(std::move(what)), unit_(std::move(unit)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressLine::Show(int64_t done, int64_t total, const std::string& more) {
  std::string text = absl::StrFormat("%s%s %d/%d %s%s", what_,
                                     is_terminal_ ? absl::StrCat(" ", Bar(done, total)) : ":", done,
                                     total, unit_, more.empty() ? "" : absl::StrCat(", ", more));
  if (is_terminal_) {
    text.resize(std::min(text.size(), TerminalColumns(STDERR_FILENO)));
    if (is_open_ && text == shown_) return;
    absl::FPrintF(stderr, "\r%-*s", static_cast<int>(shown_.size()), text);
    is_open_ = true;
  } else if (pace_.IsDue(done, total, std::chrono::steady_clock::now())) {
    absl::FPrintF(stderr, "%s\n", text);
    is_open_ = false;
  } else if (text != shown_) {
    is_open_ = true;
  }
  shown_ = std::move(text);
}

void ProgressLine::Say(const std::string& message) {
  if (is_terminal_) End();
  absl::FPrintF(stderr, "%s\n", message);
}

void ProgressLine::End() {
  if (is_open_) absl::FPrintF(stderr, "%s\n", is_terminal_ ? "" : shown_);
  is_open_ = false;
}

StatusLine::StatusLine(std::string what)
    : what_(std::move(what)),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      said_(std::chrono::steady_clock::now()) {}

void StatusLine::Show(const std::string& now) {
  std::string text = absl::StrCat(what_, ": ", now);
  if (is_terminal_) {
    text.resize(std::min(text.size(), TerminalColumns(STDERR_FILENO)));
    absl::FPrintF(stderr, "\r%-*s", static_cast<int>(shown_), text);
    shown_ = text.size();
  } else if (std::chrono::steady_clock::now() - said_ >= kLogInterval) {
    absl::FPrintF(stderr, "%s\n", text);
    said_ = std::chrono::steady_clock::now();
  }
}

StatusLine::~StatusLine() {
  if (shown_ > 0) absl::FPrintF(stderr, "\r%-*s\r", static_cast<int>(shown_), "");
}

absl::Status MeasureAll(Profiler& profiler, const std::string& what) {
  WatchForInterrupt();
  ProgressLine line(absl::StrCat("profile ", what), "steps");
  const auto show = [&] {
    line.Show(profiler.done(), profiler.total(), absl::StrCat(profiler.measured(), " engines"));
    return !Interrupted();
  };
  absl::Status status;
  while (status.ok() && profiler.done() < profiler.total()) status = profiler.MeasureNext(show);
  show();
  return absl::IsCancelled(status) ? absl::OkStatus() : status;
}

}  // namespace neap::apps
