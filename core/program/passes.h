// From a graph to the program that is planned and run: the one way there for sessions and commands.
//
// BuildProgram() says what an iteration does, layer by layer, for every device alike. What a
// program is rewritten to for a device is a pass, from Program to Program. Whoever plans, profiles
// or trains a network must see the same rewritten program, or a profile would measure kernels that
// no plan runs; so all of them call Lower(), with the device that they are for.
//
//   ASSIGN_OR_RETURN(const Program program, Lower(graph, {}, device.description()));
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"

namespace neap {

// BuildProgram(), and then every pass. There is none yet, so that the program is the same for every
// device. Errors: those of BuildProgram().
absl::StatusOr<Program> Lower(const Graph& graph, const ProgramOptions& options,
                              const DeviceDescription& device);

// BuildPart(), and then the passes that made `whole`, a result of Lower() for the same device.
// Errors: those of BuildPart().
absl::StatusOr<Program> LowerPart(const Graph& graph, const Program& whole,
                                  const DeviceDescription& device);

}  // namespace neap
