// Data parallelism for tests: what ranks must compute, computed by one process without any of the
// code that ranks use, and trainings by ranks on threads or in processes of MPI.
//
// The reference trains ordinary sessions with a learning rate of 0, one for each rank and step: the
// momentum that they leave is the gradient of the rank's images. It averages these in the order of
// the ranks, and takes the optimizer's step itself.
//
//   const RankNet net = [](int64_t batch) { return RandomGraph(seed, {.batch = batch}); };
//   const RankTraining training = {.net = net, .split = {2, 2}, .steps = 20};
//   CHECK(AreSame(TrainRank(training, *device, planning, communicator), Reference(training)));
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/program/program.h"
#include "neap/core/run/session.h"
#include "neap/memory/planner_options.h"
#include "tests/small_training.h"

namespace neap::testing {

using RankNet = std::function<Graph(int64_t batch)>;

struct RankTraining {
  RankNet net;
  std::vector<int64_t> split;  // the images of each rank
  int64_t steps = 20;
  // Elements of an image; classes of its one label.
  int64_t image_values = 0;
  int32_t classes = 4;
  int64_t bucket_bytes = kBucketBytes;
  bool sync_batch_norm = false;
  bool shard_optimizer = false;
  bool evaluates = false;  // after each step, which must not change anything
  Optimizer optimizer = {.momentum = 0.9F, .weight_decay = 0.01F};  // Reference() knows no other

  int64_t all_images() const;
  TrainingOptions options(Communicator* communicator) const;
  // The images of the ranks, or of all of them, in a step.
  Batch PartOf(int64_t step, int64_t first, int64_t count) const;
};

// A random network without dropout, by a split, with few or many buckets of gradients.
RankTraining RandomRankTraining(uint32_t seed, std::vector<int64_t> split);
// A little more than the smallest budget of the rank (the first), by the n-th policy of all, in a
// circle, which waits for some buckets more or less.
PlannerOptions TightPolicy(const RankTraining& training, size_t n);
PlannerOptions TightPolicy(const RankTraining& training, size_t n, Device& device, size_t rank);

// The losses and persistent tensors after a rank's training.
Trained TrainRank(const RankTraining& training, Device& device, const PlannerOptions& planning,
                  Communicator& communicator);
// The same for all ranks, each with a thread and a CPU of its own in this process, by rank.
std::vector<Trained> TrainOnThreads(const RankTraining& training,
                                    const std::vector<PlannerOptions>& planning);
// One rank with the whole batch.
Trained TrainAlone(const RankTraining& training);
// Networks without dropout, in fp32, and splits into 2 or 4 equal parts: with a whole power of two,
// the mean of means has the bits of the mean over all images.
Trained Reference(const RankTraining& training);

// Whether corresponding values differ by at most this, relative to the largest of their tensor, or
// to `least_scale` if that is larger.
bool AreClose(const Trained& a, const Trained& b, float tolerance, float least_scale = 0);

}  // namespace neap::testing
