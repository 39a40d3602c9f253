// The names that operations (core/step/signature_text.h) had before layers were renamed, so that
// rows that users have measured stay valid: a database looks up both names, and records under
// today's.
#pragma once

#include <string>
#include <string_view>

namespace neap {

// "fused_batch_norm forward training ..." for "norm_pass forward training ...". The same text if
// the operation has always had this name.
std::string EarlierOperation(std::string_view operation);

}  // namespace neap
