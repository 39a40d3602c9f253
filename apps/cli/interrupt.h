// Ctrl-C (and SIGTERM) as a flag that is polled between two measurements or steps, and the other
// signals that would end a command.
//
// The first signal makes Interrupted() true and at once prints a line on stderr, because the
// current step or measurement may take minutes. A second Ctrl-C ends the process immediately, as
// without a handler; no file is damaged by that. A second SIGTERM changes nothing. A signal that
// the process was started to ignore stays ignored.
//
// Both signals are received by a thread of their own and blocked in all others: oneDNN's matrix
// products use the stack pointer as a general register, so a signal handler in their threads would
// write its frame over other data.
//
//   TakeSignals();  // the first call in main()
//   WatchForInterrupt();
//   while (step < last && !Interrupted()) Take(step++);
//   return step < last ? InterruptedExitCode() : 0;
#pragma once

#include <cstdint>
#include <string>

namespace neap::apps {

// Must be called before any other thread is started. Until WatchForInterrupt() is called, signals
// end the process as usual. SIGXFSZ and SIGPIPE are ignored from then on: a file that exceeds the
// process's size limit, and a pipe or FIFO whose reader has gone, make the write fail (EFBIG,
// EPIPE) instead of ending the process.
void TakeSignals();
void WatchForInterrupt();
// Also true once a write to the standard output has failed: what a command would still compute has
// no reader, for example in `neap train ... | head`. Finish() (apps/cli/outcome.h) has the exit
// code for it.
bool Interrupted();
// The exit code by which shells report that a signal has ended a command.
constexpr int SignalExitCode(int signal) { return 128 + signal; }
// 130 after Ctrl-C, 143 after SIGTERM. 1 if the standard output failed, for which Finish() has the
// exit code and the message.
int InterruptedExitCode();
// "interrupted after 3 of 14 kernels"
std::string InterruptedText(int64_t done, int64_t total, const std::string& unit);

}  // namespace neap::apps
