// The faults of a graph's nodes in one message: the nodes that are refused by themselves, by
// operator and reason, and apart from them those that only may be, because of what they read.
//
//   RefusalReport report;
//   report.Add(node, {.reason = "neap has no layer for this operator"});
//   RETURN_IF_ERROR(report.ToStatus(graph.node_size()));
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

// Why a node is refused.
struct Refusal {
  std::string reason;
  bool is_invalid = false;      // no ONNX file may have it; otherwise neap does not support it
  bool is_consequence = false;  // it reads what is refused, and might be fine otherwise
};

class RefusalReport {
 public:
  void Add(const onnx_schema::Node& node, const Refusal& refusal);
  // OK without refusals. Otherwise UNIMPLEMENTED, or INVALID_ARGUMENT if every node that is refused
  // by itself is invalid.
  absl::Status ToStatus(int64_t nodes) const;

 private:
  // Nodes of one operator that have one fault.
  struct Group {
    std::string op;
    std::string reason;
    std::vector<std::string> names;
  };
  struct Groups {
    int64_t count = 0;
    std::vector<Group> in_order;
    std::map<std::pair<std::string, std::string>, size_t> positions;
    std::map<std::string, int64_t> by_operator;
    void Add(const std::string& op, const std::string& reason, std::string name);
  };
  static std::string Counted(const Groups& groups);
  static std::string Listed(const Groups& groups);

  Groups faults_;
  Groups consequences_;
  bool all_invalid_ = true;
};

}  // namespace neap::nets
