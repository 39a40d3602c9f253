#include "neap/memory/policies/chen.h"

#include "neap/recompute/rerun_order.h"
#include "neap/recompute/segments.h"

namespace neap {

RunOrder SublinearOrder(const Program& program) {
  return {.runs = OrderReruns(program, EvenSegments(program), RerunMode::kSpeedCentric)};
}

}  // namespace neap
