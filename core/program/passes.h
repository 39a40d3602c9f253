// Lowering a graph to the program that is planned and run.
//
// BuildProgram() says what an iteration does, layer by layer, the same for every device. A pass,
// from Program to Program, rewrites it for a device. All code that plans, profiles or trains a
// network must see the same rewritten program, or a profile would measure kernels that no plan
// runs. Sessions, commands and examples therefore call Lower(), with their device, instead of
// BuildProgram() or BuildPart(); scripts/check_floors.py checks that. The one exception is
// `neap bench conv`: it compares the convolutions that the network is written with, the same for
// every device, even for one of which only a profile database exists.
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
// through. Errors: those of BuildPart().
absl::StatusOr<Program> LowerPart(const Graph& graph, const Program& whole,
                                  const DeviceDescription& device);

}  // namespace neap
