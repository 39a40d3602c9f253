// Measures how fast ranks sum tensors (core/device/communicator.h), and keeps that in the profile
// database, from which plans for as many ranks take it.
//
//   neap devices --measure-collectives cuda:0,cuda:1
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/collective_cost.h"

namespace neap::apps {

// Sums of 4 KiB to 64 MiB. To be called by all ranks; takes some seconds and 64 MiB of the device's
// memory. Errors: those of the device and the communicator.
absl::StatusOr<std::vector<TimedSum>> MeasureSums(Device& device, Communicator& communicator);

// Measures on the devices, whose names are as for --device of neap train, and records what rank 0
// has measured. An empty path is the default database. Prints one line, or an object of JSON.
// Errors: BadUsage() for a single rank.
absl::StatusOr<int> MeasureCollectives(const std::string& devices, const std::string& database,
                                       bool json);

}  // namespace neap::apps
