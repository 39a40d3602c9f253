// Lowering a graph to the program that is planned and run.
//
// BuildProgram() says what an iteration does, layer by layer, the same for every device. A pass,
// from Program to Program, rewrites it for a device. All code that plans, profiles or trains a
// network must see the same rewritten program, or a profile would measure kernels that no plan
// runs. Sessions and commands therefore all call Lower(), with their device.
//
//   ASSIGN_OR_RETURN(const Program program, Lower(graph, {}, device.description()));
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"

namespace neap {

// BuildProgram(), and then every pass. There are no passes yet, so the program is the same for
// every device. Errors: those of BuildProgram().
absl::StatusOr<Program> Lower(const Graph& graph, const ProgramOptions& options,
                              const DeviceDescription& device);

// BuildPart(), and then the passes that `whole`, a result of Lower() for the same device, went
// through.
// Errors: those of BuildPart().
absl::StatusOr<Program> LowerPart(const Graph& graph, const Program& whole,
                                  const DeviceDescription& device);

}  // namespace neap
