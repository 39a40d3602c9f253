// Training with losses that the test computes itself, to compare it with training with the losses
// of a network: the same network with outputs whose gradients are given in their place.
//
// The gradients are computed as the kernels of the CPU do, operation by operation, so the results
// must have the same bits.
//
//   const GivenLosses losses(net);
//   Session with_loss = Opened(net, *device), given = Opened(losses.net(), *device);
//   with_loss.Step(feeds);
//   losses.Step(given, feeds);
//   CheckSameParameters(with_loss, given);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/core/program/feeds.h"
#include "neap/core/run/session.h"

namespace neap::testing {

class GivenLosses {
 public:
  // Every loss of `net` is SoftmaxCrossEntropy without label smoothing, or MeanSquaredError.
  // Losses among `kept` stay.
  explicit GivenLosses(const Graph& net, const std::vector<std::string>& kept = {});

  // The network without those losses and their targets.
  const Graph& net() const { return net_; }
  // Those of `feeds` that it has.
  Feeds FeedsOf(const Feeds& feeds) const;
  // By output: of the losses' mean over `batches` batches.
  std::vector<std::vector<float>> GradientsOf(const std::vector<NamedTensor>& outputs,
                                              const Feeds& feeds, int64_t batches = 1) const;
  Feeds Named(const std::vector<std::vector<float>>& gradients) const;
  // Forward, the gradients, and backward.
  StepResult Step(Session& session, const Feeds& feeds, int64_t batches = 1) const;

 private:
  struct GivenLoss {
    std::string predictions, target;
    float weight = 1;
    bool is_squared = false;  // otherwise softmax cross-entropy
  };
  Graph net_;
  std::vector<GivenLoss> losses_;
};

// Compares all persistent tensors that both have; those of losses are left out.
void CheckSameParameters(Session& a, Session& b);

}  // namespace neap::testing
