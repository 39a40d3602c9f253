// Whether a text is UTF-8. JSON, and so plans, traces and checkpoints, require that of every name.
#pragma once

#include <string_view>

namespace neap {

// As defined in RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF.
bool IsUtf8(std::string_view text);

}  // namespace neap
