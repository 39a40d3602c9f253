// Whether a text is UTF-8, which JSON and with it plans, traces and checkpoints want of every name.
#pragma once

#include <string_view>

namespace neap {

// As RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool IsUtf8(std::string_view text);

}  // namespace neap
