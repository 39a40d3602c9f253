#include "neap/core/graph/order.h"

#include <cstddef>

namespace neap {

std::vector<size_t> ExecutionOrder(const std::vector<std::vector<size_t>>& inputs) {
  const size_t count = inputs.size();
  std::vector<std::vector<size_t>> readers(count);
  std::vector<size_t> unmet(count);  // the join counters
  for (size_t layer = 0; layer < count; ++layer) {
    unmet[layer] = inputs[layer].size();
    for (size_t input : inputs[layer]) readers[input].push_back(layer);
  }
  std::vector<size_t> order;
  order.reserve(count);
  std::vector<size_t> stack;
  for (size_t source = count; source-- > 0;) {
    if (inputs[source].empty()) stack.push_back(source);
  }
  while (!stack.empty()) {
    const size_t layer = stack.back();
    stack.pop_back();
    order.push_back(layer);
    for (auto reader = readers[layer].rbegin(); reader != readers[layer].rend(); ++reader) {
      if (--unmet[*reader] == 0) stack.push_back(*reader);
    }
  }
  return order;
}

}  // namespace neap
