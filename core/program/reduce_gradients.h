// Data parallelism in a program: the steps at which ranks sum their gradients.
//
// Each rank trains the same network with a part of the batch. What one rank computes of its images
// alone, a gradient, the loss, a running statistic, is summed over all ranks before anything uses
// it, so after every iteration all persistent tensors are the same on all ranks. Gradients are sums
// of images' shares of the mean over the whole batch, so their plain sum is that of the whole
// batch, however it is divided. Running statistics are averaged, each with its rank's share of the
// images.
//
// Sums are taken in buckets of several tensors, because each has a latency, in the order in which
// backward completes them. They run beside the rest of backward, on a stream of their own. The
// updates follow at the end of backward, or, so that gradients are freed earlier, a number of
// buckets later (ProgramOptions::buckets_in_flight; here 1):
//
//   compute     fc' conv3' conv2' | fc, conv3 update | conv1'    | conv2, conv1 update
//   collective     [fc, conv3 ->  ]                  [conv2 ->   ] [conv1 ->]
//
// Nothing hides the last bucket, so it should be small (ProgramOptions::last_bucket_bytes).
//
// If the optimizer is sharded (core/program/shards.h), a rank gets the sum of its slices only.
//
// Layers that span the ranks (core/program/span_ranks.h) cannot wait for a bucket: the tensors of
// Step::summed are summed right behind their step, by a step of their own.
//
// The order and the content of the buckets follow from the network's layers and these two sizes
// alone, so that ranks with other budgets or other parts of the batch have the same. How long
// updates wait may differ.
//
//   ReduceGradients(program);      // of one rank, as BuildProgram() has made it
//   program.steps[i].phase;        // Phase::kAllReduce, of the layer whose gradient came last
//   program.steps[i].accumulates;  // the tensors of the bucket, or of Step::summed
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "neap/core/program/program.h"

namespace neap {

// Adds the steps if there are several ranks, and renumbers all. Private to BuildProgram().
void ReduceGradients(Program& program);

// What a rank's tensor is multiplied by before the sum of a step of kAllReduce: 1, or for a running
// statistic the rank's part of the images.
double WeightInSum(const Program& program, const Use& summed);

// A number that is equal, as far as 64 bits can tell, exactly if the programs of two ranks take the
// same collectives of the same tensors in the same order.
uint64_t HashOfCollectives(const Program& program);

// Whether ranks can train the program together. Errors: INVALID_ARGUMENT naming a loss whose mean
// is over the rank's images alone, or a state that is not fp32.
absl::Status CheckSums(const Program& program);

// Errors: INVALID_ARGUMENT for a rank that is not one of `ranks`, or for images outside the batch
// of all ranks; those of CheckShard() (core/program/shards.h).
absl::Status CheckRanks(const ProgramOptions& options, const GraphOptions& net);

}  // namespace neap
