#include "neap/memory/policies/schedule.h"

#include "neap/memory/transfer/usage.h"

namespace neap {

// A buffer counts once, whichever tensor has it.
void CountUsage(const Program& program, Schedule& schedule) {
  const std::vector<Stay>& stays = schedule.residency.stays;
  std::vector<bool> is_replaced(stays.size(), false);
  for (const Stay& stay : stays) {
    if (stay.replaces.has_value()) is_replaced[*stay.replaces] = true;
  }
  std::vector<Usage> change(schedule.workspaces.size() + 1);
  for (size_t i = 0; i < stays.size(); ++i) {
    const Usage usage = UsageOf(program.tensor(stays[i].tensor));
    if (!stays[i].replaces.has_value()) change[static_cast<size_t>(stays[i].begin)] += usage;
    if (!is_replaced[i]) change[static_cast<size_t>(stays[i].end)] -= usage;
  }
  Usage now;
  schedule.residency.usage.clear();
  for (size_t i = 0; i < schedule.workspaces.size(); ++i) {
    now += change[i];
    schedule.residency.usage.push_back(now);
    schedule.residency.usage.back().bytes += schedule.workspaces[i];
  }
}

}  // namespace neap
