#include "neap/core/step/engine_use.h"

#include "absl/strings/str_cat.h"

namespace neap {

std::string ToString(absl::Span<const EngineUse> parts) {
  if (parts.size() == 1) return parts.front().engine;
  std::string text;
  for (size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    while (end < parts.size() && parts[end] == parts[begin]) ++end;
    if (begin > 0) text += parts[begin].adds ? " += " : " + ";
    if (end - begin > 1) absl::StrAppend(&text, end - begin, " x ");
    absl::StrAppend(&text, parts[begin].batch, " ", parts[begin].engine);
  }
  return text;
}

}  // namespace neap
