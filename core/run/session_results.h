// What a session's calls return (core/run/session.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/base/tensor.h"
#include "neap/core/plan/timeline.h"

namespace neap {

struct StepResult {
  int64_t step = 0;     // from 0
  float loss = 0;       // mean over the batch; in evaluation over its `labels`
  int64_t correct = 0;  // number of labels for which the class with the largest output is right;
                        // of losses against targets: layers/target_loss.h
  int64_t labels = 0;   // in evaluation: LabelledIn() the batch
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

// The values of a tensor of the network, with its name and shape in PyTorch.
struct NamedTensor {
  std::string name;  // "conv1.weight"
  Shape shape;
  std::vector<float> values;  // in N, C, H, W order
};

struct TimedStep {
  StepResult result = {};
  Timeline timeline = {};  // of plan(), beginning with the batch's arrival
};

struct MemoryUse {
  int64_t predicted_peak_bytes = 0;  // of the training plan
  int64_t measured_peak_bytes = 0;   // highest arena byte that steps of this plan have used so far
  int64_t arena_bytes = 0;           // reserved from the device
  int64_t peer_bytes = 0;            // reserved from its peer, for this plan
};

}  // namespace neap
