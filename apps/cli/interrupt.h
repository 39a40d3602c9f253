// Ctrl-C (and SIGTERM) as a question that can be asked between two measurements or steps.
//
// The first signal makes Interrupted() true and is answered at once, by a line on stderr: what is
// at hand may take minutes. A second Ctrl-C ends the process as if nobody watched, for whoever does
// not want to wait; files are safe against that. A second SIGTERM changes nothing. A signal that is
// ignored stays so: whoever started the process wants it left alone.
//
// Both are taken by a thread of their own and blocked in all others. For oneDNN's matrix products
// use the stack pointer for something else while they run: a signal handler in their threads would
// write its frame over whatever lies there.
//
//   TakeSignals();  // main() begins with it
//   ...
//   WatchForInterrupt();
//   while (step < last && !Interrupted()) Take(step++);
//   return step < last ? InterruptedExitCode() : 0;
#pragma once

#include <cstdint>
#include <string>

namespace neap::apps {

// Before any other thread is started. Until somebody watches, signals end the process as always.
// SIGXFSZ is ignored from then on: a file that grows beyond the process's limit is an error of the
// write (EFBIG), not the end of the process.
void TakeSignals();
void WatchForInterrupt();
bool Interrupted();
// 130 after Ctrl-C, 143 after SIGTERM: what a shell says of a process that the signal ended.
int InterruptedExitCode();
// "interrupted after 3 of 14 kernels"
std::string InterruptedText(int64_t done, int64_t total, const std::string& unit);

}  // namespace neap::apps
