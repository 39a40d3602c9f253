#include "neap/memory/policies/auto.h"

#include <utility>

#include "neap/recompute/rebuild_frontier.h"

namespace neap {

std::vector<RunOrder> FrontierOrders(const Program& program, const RebuildPrices& prices) {
  std::vector<RunOrder> orders;
  for (RebuildPoint& point : RebuildFrontier(program, prices))
    orders.push_back({.runs = std::move(point.runs), .moved = std::move(point.moved)});
  return orders;
}

}  // namespace neap
