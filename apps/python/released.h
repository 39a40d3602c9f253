// Runs C++ code while other Python threads run, and without signals.
//
// oneDNN's matrix products use the stack pointer as a general register, so a signal handler in
// their threads would write its frame over other data (layers/cpu/cpu_device.h). Signals are
// therefore blocked in the calling thread and, because threads inherit that, in all that are
// started meanwhile. A Ctrl-C that comes meanwhile is delivered at the end, and Python raises
// KeyboardInterrupt when the call returns; what the call has done is complete then.
#pragma once

#include <nanobind/nanobind.h>
#include <signal.h>

#include <initializer_list>
#include <utility>

namespace neap::python {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    // Faults of the thread itself, which cannot wait.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_ = {};
};

// Whether a Ctrl-C has come since the signals were blocked. Only while they are, in any thread.
inline bool InterruptIsPending() {
  sigset_t pending;
  sigemptyset(&pending);
  return sigpending(&pending) == 0 && sigismember(&pending, SIGINT) == 1;
}

// `run` must not touch Python objects. To be called with the GIL.
template <typename Function>
auto Released(Function&& run) {
  const nanobind::gil_scoped_release released;
  const BlockedSignals blocked;
  return std::forward<Function>(run)();
}

}  // namespace neap::python
