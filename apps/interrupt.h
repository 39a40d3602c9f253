// Ctrl-C (and SIGTERM) as a question that can be asked between two steps.
//
// The first signal only makes Interrupted() true; a second Ctrl-C ends the process as usual, for
// whoever does not want to wait for the step.
#pragma once

namespace neap::apps {

void WatchForInterrupt();
bool Interrupted();

}  // namespace neap::apps
