#include "apps/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace neap::apps {
namespace {

constexpr char kAnswer[] = "\nneap: stopping after what is at hand; Ctrl-C again ends it at once\n";
// timeout(1) sends a signal twice, to the process and to its group. Nobody types so fast.
constexpr int64_t kOneSignalMs = 100;

// A signal handler can reach nothing but what is static.
std::atomic<int64_t> first_ms = 0;
std::atomic<int> first_signal = 0;
std::atomic<bool> may_stand_in_line = false;  // the cursor: on a terminal there may be progress
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t NowMs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

void Answer() {
  const size_t skipped = may_stand_in_line ? 0 : 1;
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, kAnswer + skipped, sizeof(kAnswer) - 1 - skipped);
}

// Nothing here that is not async-signal-safe.
void OnSignal(int signal) {
  const int error = errno;
  int64_t never = 0;
  if (first_ms.compare_exchange_strong(never, NowMs())) {
    first_signal = signal;
    Answer();
  } else if (signal == SIGINT && NowMs() - first_ms > kOneSignalMs) {
    std::signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
  errno = error;
}

void Watch(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return;
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void WatchForInterrupt() {
  may_stand_in_line = isatty(STDERR_FILENO) == 1;
  Watch(SIGTERM);
  Watch(SIGINT);
}

bool Interrupted() { return first_signal != 0; }

int InterruptedExitCode() { return 128 + first_signal; }

std::string InterruptedText(int64_t done, int64_t total, const std::string& unit) {
  return absl::StrCat("interrupted after ", done, " of ", total, " ", unit);
}

}  // namespace neap::apps
