#include "neap/layers/profile/earlier_operation.h"

namespace neap {
namespace {

struct Renaming {
  std::string_view type;   // of the layer, and the space behind it
  std::string_view field;  // only operations with this field in their parameters; empty: all
  std::string_view earlier;
};
// The first row that an operation meets holds.
constexpr Renaming kRenamings[] = {{"norm_pass ", " activation=", "activated_batch_norm "},
                                   {"norm_pass ", "", "fused_batch_norm "},
                                   {"concat_batch_norms ", "", "joined_batch_norms "}};

}  // namespace

std::string EarlierOperation(std::string_view operation) {
  for (const Renaming& renaming : kRenamings) {
    const bool has_field = operation.find(renaming.field) != std::string_view::npos;
    if (!operation.starts_with(renaming.type) || !has_field) continue;
    return std::string(renaming.earlier).append(operation.substr(renaming.type.size()));
  }
  return std::string(operation);
}

}  // namespace neap
