// A network of two feeds and two targets, two losses and two outputs, and a parameter that layers
// share, with what it is fed; the tests of ports train it.
//
//   hidden = relu(w * image + w * age)
//   scores, years = fully connected layers of hidden, each with a loss
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/core/program/feeds.h"
#include "neap/core/run/session.h"

namespace neap {

inline constexpr int64_t kTowerBatch = 4;
inline constexpr TrainingOptions kPlainDescent = {.optimizer = {.momentum = 0},
                                                  .learning_rate = {.base = 0.1F}};

// What the network's inputs are fed.
struct TowerFeeds {
  std::vector<float> image, age, estimate;
  std::vector<int32_t> species;
  Feeds feeds() const {
    return {{.name = "image", .floats = image},
            {.name = "age", .floats = age},
            {.name = "species", .integers = species},
            {.name = "estimate", .floats = estimate}};
  }
};

TowerFeeds TowerFeedsFor(int64_t examples = kTowerBatch);

struct TowerOptions {
  bool shares = true;
  bool classifies = true, estimates = true;
  float weight = 0.25F;  // of the second loss
};

Graph TwoTowers(const TowerOptions& options = {}, int64_t batch = kTowerBatch);

const NamedTensor& OutputCalled(const StepResult& result, const std::string& name);
std::vector<float> Stored(Session& session, const std::string& name);

}  // namespace neap
