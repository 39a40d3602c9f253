// Lowering a graph to the program that is planned and run.
//
//   Graph -> Resolve() -> SpanRanks() -> Fuse() -> BuildProgram() -> Program
//
// BuildProgram() says what an iteration does, layer by layer. Passes before it rewrite the network:
// one for the ranks, which lets batch norms span them (core/program/span_ranks.h), and one which
// fuses layers (core/program/fuse.h), both by the rules of the device
// (DeviceDescription::rules). The device also decides whether one step
// updates the parameters of several layers (ProgramOptions::update_group_bytes): on a GPU, unless
// the home of any is the host. All code that plans, profiles or trains a network must see the same
// rewritten program, or a profile would measure kernels that no plan runs. Sessions, commands and
// examples therefore call Lower(), with their device, instead of BuildProgram() or BuildPart();
// scripts/check_floors.py checks that. The one exception is `neap bench conv`: it compares the
// convolutions that the network is written with, the same for every device, even for one of which
// only a profile database exists. Sub-batches (core/program/sub_batches.h) are made of the
// rewritten network, so they have the same layers.
//
//   ASSIGN_OR_RETURN(const Program program, Lower(graph, {}, device.description()));
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"

namespace neap {

// ProgramOptions::fusion_batch of a rank: an even part of the batch, so that all ranks have the
// same layers, and so the same order of sums, however the batch is divided. 0 for one rank.
int64_t FusionBatch(const RankShare& share);

// The program of the network after all passes. ProgramOptions::update_group_bytes is set for the
// device, whatever `options` say. Layers span the ranks if ProgramOptions::sync_batch_norm is set,
// and are fused unless GraphOptions::fusion is false or the accounting is that of the paper.
// Errors: those of Resolve() and BuildProgram(); INVALID_ARGUMENT naming a layer that would be
// trained with variances of one value (LayerSpec::values_per_variance).
absl::StatusOr<Program> Lower(const Graph& graph, const ProgramOptions& options,
                              const DeviceDescription& device);

// The program of a part of the network of `whole`, a result of Lower() for the same device. Errors:
// those of Lower() and BuildPart().
absl::StatusOr<Program> LowerPart(const Graph& graph, const Program& whole,
                                  const DeviceDescription& device);

// The program that evaluates what `training` trains, a result of Lower() for the same network and
// device: a rank alone, with the persistent tensors of `training`. Errors: those of Resolve() and
// BuildPart().
absl::StatusOr<Program> LowerInference(const Graph& graph, const Program& training,
                                       const DeviceDescription& device);

// The program of another iteration of those whose gradients are summed (Accumulation), with the
// persistent tensors of `first`, a result of Lower() for the same network and device.
absl::StatusOr<Program> LowerAccumulation(const Graph& graph, const Program& first, int64_t index,
                                          const DeviceDescription& device);

}  // namespace neap
