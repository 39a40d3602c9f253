#include "neap/layers/catalog/engine_id.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

// Stored in plans and databases, so they never change.
constexpr std::string_view kHalfPrefix = "half:";
constexpr std::string_view kReluPrefix = "relu:";

}  // namespace

void MarkHalf(Engine& engine) {
  engine.id.insert(0, kHalfPrefix);
  engine.notes = absl::StrCat("half-accumulation", engine.notes.empty() ? "" : " ", engine.notes);
  engine.accumulates_in_half = true;
}

void MarkRelu(Engine& engine) {
  engine.id.insert(0, kReluPrefix);
  engine.computes_relu = true;
}

Engine EngineFromText(std::string id, int64_t workspace_bytes, bool deterministic) {
  Engine engine = {
      .id = std::move(id), .workspace_bytes = workspace_bytes, .deterministic = deterministic};
  engine.accumulates_in_half = engine.id.starts_with(kHalfPrefix);
  engine.computes_relu = engine.id.starts_with(kReluPrefix);
  return engine;
}

}  // namespace neap
