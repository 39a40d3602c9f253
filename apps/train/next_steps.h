// The commands that a user may want after a training: those that evaluate it, use it, and continue
// it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/train/train_flags.h"

namespace neap::apps {

// Pairs of what a command does, in a word or two, and the command. `saved` are the files that have
// been written, --save before --weights-out.
std::vector<std::pair<std::string, std::string>> NextSteps(const TrainFlags& flags,
                                                           const std::vector<std::string>& saved,
                                                           bool is_complete);

}  // namespace neap::apps
