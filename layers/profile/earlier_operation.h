// The names that operations (core/step/signature_text.h) had before layers were renamed, so that
// rows that users have measured stay valid: a database looks up both names, and records under
// today's.
//
//   EarlierOperation("norm_pass forward training ... relu=true ...");
//       // "fused_batch_norm forward training ... relu=true ..."
#pragma once

#include <string>
#include <string_view>

namespace neap {

// The same text if the operation has always had this name.
std::string EarlierOperation(std::string_view operation);

}  // namespace neap
