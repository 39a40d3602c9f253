// Sessions, most of which train the network of tests/small_net.h; shared by tests of the session.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/memory/planner_options.h"
#include "tests/small_net.h"

namespace neap {

Session MakeSession(Device& device, const PlannerOptions& planning,
                    const TrainingOptions& training = {}, Layout layout = Layout::kChannelsFirst);

// A session of any network.
Session Opened(const Graph& graph, Device& device, const PlannerOptions& planning = {},
               const TrainingOptions& training = {});

// The minimum budget for SmallNet(), so a policy that moves tensors offloads some in every step.
PlannerOptions Tight(Device& device, const std::string& policy = "tensor-cache");

// Every step's batch depends only on its number. Returns the last loss.
float Train(Session& session, int steps);

bool SameBits(const std::vector<float>& a, const std::vector<float>& b);
void CheckSameState(Session& a, Session& b);

// What a training has computed: its losses, and then every persistent tensor.
using Trained = std::vector<std::vector<float>>;
// Finishes a step, and appends its loss to the losses.
void FinishInto(Trained& trained, Session& session);
void AppendState(Trained& trained, Session& session);
bool AreSame(const Trained& a, const Trained& b);

}  // namespace neap
