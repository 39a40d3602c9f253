#include "apps/progress.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/interrupt.h"
#include "neap/core/status_macros.h"

namespace neap::apps {

void ProgressLine::Show(int64_t done, int64_t total, const std::string& more) {
  constexpr int64_t kWidth = 32;
  const auto filled = static_cast<size_t>(done * kWidth / std::max<int64_t>(total, 1));
  const std::string text = absl::StrFormat("%s [%s%s] %d/%d %s%s", what_, std::string(filled, '#'),
                                           std::string(kWidth - filled, '.'), done, total, unit_,
                                           more.empty() ? "" : absl::StrCat(", ", more));
  absl::FPrintF(stderr, "\r%-*s", width_, text);
  width_ = static_cast<int>(text.size());
  std::fflush(stderr);
}

void ProgressLine::End() const { std::fputs("\n", stderr); }

absl::StatusOr<bool> MeasureAll(Profiler& profiler, const std::string& what) {
  WatchForInterrupt();
  ProgressLine line(absl::StrCat("profile ", what), "steps");
  const auto show = [&] {
    line.Show(profiler.done(), profiler.total(), absl::StrCat(profiler.measured(), " engines"));
  };
  while (profiler.done() < profiler.total() && !Interrupted()) {
    show();
    RETURN_IF_ERROR(profiler.MeasureNext());
  }
  show();
  line.End();
  return profiler.done() == profiler.total();
}

}  // namespace neap::apps
