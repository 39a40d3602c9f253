// What a session's calls return (core/run/session.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/base/tensor.h"
#include "neap/core/plan/timeline.h"

namespace neap {

// The values of a tensor of the network, with its name and shape in PyTorch.
struct NamedTensor {
  std::string name;  // "conv1.weight"
  Shape shape;
  std::vector<float> values;  // in N, C, H, W order
};

// One of the network's losses.
struct LossResult {
  std::string name;  // of its layer
  float weight = 1;  // in the sum of all losses
  bool is_auxiliary = false;
  float loss = 0;       // mean over the batch; in evaluation over what is `counted`
  int64_t correct = 0;  // number of labels for which the class with the largest output is right;
                        // of losses against targets: layers/target_loss.h
  int64_t labels = 0;   // in evaluation: the labels or targets that are known (CountKnown())
  // In evaluation, how many things the loss is the mean over: the labels, or of a loss that is no
  // mean over labels (LossMean) the examples with any. The mean over several batches weighs by it.
  int64_t counted = 0;
};

struct StepResult {
  int64_t step = 0;  // from 0
  float loss = 0;    // the sum of `losses`, each times its weight
  // Of the network's main loss, the first that is not auxiliary.
  int64_t correct = 0;
  int64_t labels = 0;
  int64_t counted = 0;
  std::vector<LossResult> losses;    // in the order in which they were computed
  std::vector<NamedTensor> outputs;  // of the layers of Graph::Output(), for each example
  // If the loss is scaled (core/step/loss_scale.h), in training: the scales of this step and of the
  // next one, whether this step changed nothing, because a gradient was not finite, and the number
  // of such steps so far.
  float used_loss_scale = 1;
  float loss_scale = 1;
  bool skipped = false;
  int64_t skipped_steps = 0;
};

// The network's predictions for images.
struct Prediction {
  Shape shape;  // {images, classes, 1, 1}, or {images, classes, height, width} if pixels are
                // labelled
  // Both in N, C, H, W order.
  std::vector<float> logits;         // what the loss reads
  std::vector<float> probabilities;  // what it makes of them: their softmax over the classes, their
                                     // sigmoid, or with MeanSquaredError the same values
};

struct TimedStep {
  StepResult result = {};
  Timeline timeline = {};  // of plan(), beginning with the batch's arrival
};

struct MemoryUse {
  // Of the training plan; if gradients are summed, the largest of the plans of one update.
  int64_t predicted_peak_bytes = 0;
  int64_t measured_peak_bytes = 0;  // highest arena byte that steps of these have used so far
  int64_t arena_bytes = 0;          // reserved from the device
  int64_t peer_bytes = 0;           // reserved from its peer
};

// How often kernels were made for a program, and how often they were not.
struct ExecutableStats {
  int64_t made = 0;     // for a graph or a size, training or evaluation, or for another budget
  int64_t resumed = 0;  // changes to a graph whose kernels and recordings were still there
};

}  // namespace neap
