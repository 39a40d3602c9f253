// The candidates of attention that run on cuDNN (layers/cuda/attention/cudnn_attention.h): of
// 16-bit heads in channels-last tensors, whose dimensions are a multiple of 8. Rotary positions are
// applied to copies of query and key in the workspace, rounded to 16 bits. A bias is an input that
// lies in memory as if it had one head, and a step that computes its gradient is left to neap's
// kernels.
#pragma once

#include "neap/layers/attention/attention_shape.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {

// None if cuDNN has no engine for the step.
absl::StatusOr<Candidates> SdpaCandidates(const StepSignature& signature, const AttentionShape& s,
                                          const SharedRuntime& runtime);

}  // namespace neap::cuda
