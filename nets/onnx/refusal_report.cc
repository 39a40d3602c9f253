#include "neap/nets/onnx/refusal_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace neap::nets {
namespace {

constexpr int64_t kMaxNamed = 1000;  // nodes in a message

std::string Shortened(const std::string& text) { return absl::CHexEscape(text.substr(0, 200)); }

std::string QuotedName(const onnx_schema::Node& node) {
  const bool has_name = !node.name().empty() || node.output_size() == 0;
  return absl::StrCat("'", Shortened(has_name ? node.name() : node.output(0)), "'");
}

std::string OperatorOf(const onnx_schema::Node& node) {
  const bool is_ours = node.domain().empty() || node.domain() == "ai.onnx";
  return absl::StrCat(is_ours ? "" : absl::StrCat(Shortened(node.domain()), "."),
                      Shortened(node.op_type()));
}

}  // namespace

void RefusalReport::Groups::Add(const std::string& op, const std::string& reason,
                                std::string name) {
  ++by_operator[op];
  if (++count > kMaxNamed) return;
  const auto [position, is_new] = positions.try_emplace({op, reason}, in_order.size());
  if (is_new) in_order.push_back({.op = op, .reason = reason, .names = {}});
  in_order[position->second].names.push_back(std::move(name));
}

void RefusalReport::Add(const onnx_schema::Node& node, const Refusal& refusal) {
  const std::string op = OperatorOf(node);
  if (refusal.is_consequence) return consequences_.Add(op, "", QuotedName(node));
  all_invalid_ = all_invalid_ && refusal.is_invalid;
  faults_.Add(op, refusal.reason, QuotedName(node));
}

// "3 Mul, 1 Erf", the most frequent first.
std::string RefusalReport::Counted(const Groups& groups) {
  std::vector<std::pair<int64_t, std::string>> counts;
  for (const auto& [op, count] : groups.by_operator) counts.emplace_back(-count, op);
  std::sort(counts.begin(), counts.end());
  return absl::StrJoin(counts, ", ", [](std::string* out, const auto& entry) {
    absl::StrAppend(out, -entry.first, " ", entry.second);
  });
}

std::string RefusalReport::Listed(const Groups& groups) {
  std::string text = absl::StrJoin(groups.in_order, "; ", [](std::string* out, const Group& group) {
    absl::StrAppend(out, group.names.size() > 1 ? "nodes " : "node ",
                    absl::StrJoin(group.names, ", "), " (", group.op, ")",
                    group.reason.empty() ? "" : ": ", group.reason);
  });
  if (groups.count > kMaxNamed) absl::StrAppend(&text, "; and ", groups.count - kMaxNamed, " more");
  return text;
}

absl::Status RefusalReport::ToStatus(int64_t nodes) const {
  if (faults_.count + consequences_.count == 0) return absl::OkStatus();
  std::string text = absl::StrCat("neap cannot train ", faults_.count, " of its ", nodes,
                                  " nodes (", Counted(faults_), "): ", Listed(faults_));
  if (consequences_.count > 0) {
    absl::StrAppend(&text, ". Behind them, and perhaps only because of them, it cannot read ",
                    consequences_.count, " (", Counted(consequences_),
                    "): ", Listed(consequences_));
  }
  return all_invalid_ ? absl::InvalidArgumentError(text) : absl::UnimplementedError(text);
}

}  // namespace neap::nets
