#include "neap/memory/policies/auto.h"

#include <utility>

#include "neap/recompute/rebuild_frontier.h"

namespace neap {

// Without the first point, which rebuilds nothing.
std::vector<RunOrder> FrontierOrders(const Program& program, const RebuildPrices& prices) {
  std::vector<RunOrder> orders;
  std::vector<RebuildPoint> points = RebuildFrontier(program, prices);
  for (size_t i = 1; i < points.size(); ++i)
    orders.push_back({.runs = std::move(points[i].runs), .moved = std::move(points[i].moved)});
  return orders;
}

}  // namespace neap
