// Data parallelism in one process: a session for each of several devices, each on a thread of its
// own, that train one network together.
//
// For networks of images with labels or targets. Every rank has a part of each batch, a planner,
// and so a budget, of its own. The batches given to this class are those of all ranks, and state
// their size; it divides them. What the ranks compute is described in
// core/program/reduce_gradients.h. Ranks in several processes need no ParallelSession: each has a
// Session with a communicator.
//
//   std::vector<ParallelSession::Rank> ranks;
//   for (int rank = 0; rank < 2; ++rank) {
//     ranks.push_back({.images = 32, .device = devices[rank], .planner = planner,
//                      .communicator = communicators[rank]});
//   }
//   ASSIGN_OR_RETURN(ParallelSession session, ParallelSession::Create(net_for, ranks));
//   ASSIGN_OR_RETURN(const float loss, session.TrainStep(batch));  // of 64 images
//   RETURN_IF_ERROR(session.Save("model.safetensors"));
//
// *Ownership*: borrows devices and communicators, which must outlive it. *Threads*: one at a time.
// *Errors*: those of Session and the communicators, with "rank N: " for that of one rank. After an
// error of a training step on one rank, such as a label that is not a class, the others have waited
// for it in vain: the session, its devices and communicators have to be replaced.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/planner.h"
#include "neap/core/run/learning_rate.h"
#include "neap/core/run/session.h"
#include "neap/core/vision/batch.h"

namespace neap {

class ParallelSession {
 public:
  struct Rank {
    int64_t images = 0;  // of each batch
    Device* device = nullptr;
    std::shared_ptr<const Planner> planner = nullptr;
    Communicator* communicator = nullptr;
  };
  // The network for a number of images.
  using NetFor = std::function<Graph(int64_t batch)>;

  // TrainingOptions::communicator is ignored. Errors: INVALID_ARGUMENT for no ranks, or for one
  // without images, device, planner or communicator, or whose communicator is another rank's.
  static absl::StatusOr<ParallelSession> Create(const NetFor& net_for,
                                                const std::vector<Rank>& ranks,
                                                const TrainingOptions& training = {});
  ParallelSession(ParallelSession&&) noexcept;
  ParallelSession& operator=(ParallelSession&&) noexcept;
  ~ParallelSession();

  int ranks() const;
  int64_t batch() const;  // images of all ranks together
  // The session of a rank, for what concerns that rank alone: its plan, memory and budget. Nothing
  // may be in flight.
  Session& rank(int rank);

  // As in Session, of all ranks.
  LearningRate learning_rate() const;
  absl::Status SetLearningRate(const LearningRate& rate);

  // Steps as in Session, of all ranks. Errors: INVALID_ARGUMENT for a batch of another size.
  absl::StatusOr<float> TrainStep(const Batch& batch);
  absl::Status Begin(const Batch& batch);
  absl::StatusOr<StepResult> Finish();
  // The batch may have fewer images; then some ranks may have none.
  absl::StatusOr<StepResult> Evaluate(const Batch& batch);

  absl::Status Save(const std::string& path);  // by rank 0
  absl::Status Load(const std::string& path);  // on all ranks
  // As in Session, of rank 0.
  absl::StatusOr<std::vector<float>> Values(std::string_view tensor);

 private:
  class Impl;
  explicit ParallelSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace neap
