// A training that takes milliseconds for each step.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/command.h"

namespace neap::testing {

using Args = std::vector<std::string>;

inline const Args kTiny = {"train",    "resnet-cifar", "--depth", "8",       "--image",
                           "8",        "--channels",   "1",       "--batch", "16",
                           "--device", "cpu"};
// A budget so tight that copies run in both directions.
inline const Args kMoving = {"--policy", "offload", "--budget", "80%", "--host-budget", "1GiB"};

// The losses of the steps with all their digits: equal lists are equal bits.
inline std::vector<std::string> LossesOf(const std::vector<nlohmann::json>& lines) {
  std::vector<std::string> losses;
  for (const nlohmann::json& line : lines) {
    if (line.at("event") == "step") losses.push_back(line.at("loss_text"));
  }
  return losses;
}

}  // namespace neap::testing
