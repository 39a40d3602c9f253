#include "apps/cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"

namespace neap::apps {
namespace {

constexpr char kAnswer[] =
    "\nneap: stopping after the current step or measurement; Ctrl-C again stops at once\n";
// timeout(1) sends a signal twice, to the process and to its group, faster than any user can type.
constexpr auto kOneSignal = std::chrono::milliseconds(100);

std::atomic<bool> is_watched = false;
std::atomic<bool> may_stand_in_line = false;  // the cursor: on a terminal there may be progress
std::atomic<int> first_signal = 0;

void Answer() {
  std::fputs(kAnswer + (may_stand_in_line ? 0 : 1), stderr);
  std::fflush(stderr);
}

// Ends the process as the signal does by default.
void EndBy(int signal) {
  std::signal(signal, SIG_DFL);
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, signal);
  pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  raise(signal);
}

void Serve(sigset_t signals) {
  std::chrono::steady_clock::time_point answered;
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (!is_watched) {
      EndBy(signal);
    } else if (first_signal == 0) {
      Answer();  // first: once other threads see the flag, the process may end
      answered = std::chrono::steady_clock::now();
      first_signal = signal;
    } else if (signal == SIGINT && std::chrono::steady_clock::now() - answered > kOneSignal) {
      EndBy(signal);
    }
  }
}

bool IsIgnored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

void TakeSignals() {
  for (const int signal : {SIGXFSZ, SIGPIPE}) std::signal(signal, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM}) {
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(Serve, signals).detach();
}

void WatchForInterrupt() {
  may_stand_in_line = isatty(STDERR_FILENO) == 1;
  is_watched = true;
}

bool Interrupted() { return first_signal != 0 || std::ferror(stdout) != 0; }

int InterruptedExitCode() { return first_signal == 0 ? 1 : SignalExitCode(first_signal); }

std::string InterruptedText(int64_t done, int64_t total, const std::string& unit) {
  return absl::StrCat("interrupted after ", done, " of ", total, " ", unit);
}

}  // namespace neap::apps
