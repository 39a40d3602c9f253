// LinearCrossEntropy through cuBLASLt, for one chunk of positions after another.
//
// cuBLAS is column-major, and reads a row-major matrix as its transpose. With channels last, a
// chunk of x is x' {C, P}; with channels first, where a chunk is an example, it lies as {P, C} and
// is transposed in the products. W' is {C, V}, and the logits are {V, P}:
//
//   logits  L  {V, P} = W'^T {V, C}  x' {C, P}
//   dweight dW'{C, V} = x' {C, P}    g^T {P, V}     added to that of the chunks before
//   dx      dx'{C, P} = W' {C, V}    g {V, P}
//
// A column of the logits begins at a multiple of kLogitAlignment bytes, because a vocabulary is
// seldom a number of classes that tensor cores like.
#include "neap/layers/tokens/linear_cross_entropy.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/kernels/tokens/tokens.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::cuda {
namespace {

using namespace operands;

constexpr int64_t kLogitAlignment = 128;
// Positions of a chunk, with channels last; engines have those that are no more than all, and the
// fewest. Every chunk reads and writes dweight, and a product of few positions leaves
// multiprocessors idle, so more are faster.
constexpr int64_t kChunks[] = {4096, 1024, 256};
constexpr std::string_view kByExample = "examples";

// The parts of x and of the workspace.
struct TokenChunks {
  DType dtype;
  int64_t channels, classes, positions;  // positions of all examples
  int64_t size;                          // positions of a chunk
  bool by_example;                       // channels first: a chunk is an example

  int64_t last() const { return positions % size; }  // 0 if all have the same size
  int64_t apart() const {
    return RoundUp(classes * SizeOf(dtype), kLogitAlignment) / SizeOf(dtype);
  }
  int64_t logits_bytes() const {
    return RoundUp(size * apart() * SizeOf(dtype), kWorkspaceAlignment);
  }
  int64_t scores_bytes() const {
    return RoundUp(positions * 2 * int64_t{sizeof(float)}, kWorkspaceAlignment);
  }
  int64_t blas_bytes() const { return BlasWorkspaceOf({.m = classes, .n = size, .k = channels}); }
  int64_t workspace_bytes() const { return logits_bytes() + scores_bytes() + blas_bytes(); }
  // Of the places where chunks of x begin.
  uint32_t alignment() const {
    return AlignmentOf(size == positions ? 0 : size * channels * SizeOf(dtype));
  }
};

// The products of chunks of one size.
struct TokenProducts {
  std::unique_ptr<Matmul> logits, dweight, dx;

  static absl::StatusOr<TokenProducts> Build(const Runtime& runtime, const TokenChunks& c,
                                             int64_t size, bool trains) {
    TokenProducts products;
    const MatmulOptions options = {.workspace_bytes = c.blas_bytes()};
    const MatmulShape logits = {.transpose_a = true,
                                .transpose_b = c.by_example,
                                .m = c.classes,
                                .n = size,
                                .k = c.channels,
                                .alignment = c.alignment(),
                                .leading_c = c.apart()};
    ASSIGN_OR_RETURN(products.logits, Matmul::Build(runtime, logits, c.dtype, options));
    if (!trains) return products;
    const MatmulShape dweight = {.transpose_a = c.by_example,
                                 .transpose_b = true,
                                 .m = c.channels,
                                 .n = c.classes,
                                 .k = size,
                                 .alignment = c.alignment(),
                                 .leading_b = c.apart()};
    const MatmulTypes to_fp32(c.dtype, DType::kFp32);
    ASSIGN_OR_RETURN(products.dweight, Matmul::Build(runtime, dweight, to_fp32, options));
    MatmulShape dx = {.m = c.channels,
                      .n = size,
                      .k = c.classes,
                      .alignment_c = c.alignment(),
                      .leading_b = c.apart()};
    if (c.by_example) {  // {P, C} = g^T W'^T
      dx.transpose_a = dx.transpose_b = true;
      std::swap(dx.m, dx.n);
      std::swap(dx.leading_a, dx.leading_b);
    }
    ASSIGN_OR_RETURN(products.dx, Matmul::Build(runtime, dx, c.dtype, options));
    return products;
  }
};

class TokenLossStep final : public StreamKernel {
 public:
  TokenLossStep(SharedRuntime runtime, const StepSignature& signature, const TokenChunks& chunks)
      : StreamKernel(std::move(runtime), signature), chunks_(chunks) {}

  absl::Status Build() {
    for (const int64_t size : {chunks_.size, chunks_.last()}) {
      if (size == 0) continue;
      ASSIGN_OR_RETURN(TokenProducts products,
                       TokenProducts::Build(runtime(), chunks_, size, trains()));
      products_.push_back(std::move(products));
    }
    return absl::OkStatus();
  }

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    for (int64_t first = 0; first < chunks_.positions; first += chunks_.size)
      RETURN_IF_ERROR(RunChunk(args, first, std::min(chunks_.size, chunks_.positions - first)));
    if (signature().rerun || !signature().Has(State(0))) return absl::OkStatus();
    const kernels::LossMetrics metrics = {.mean_and_correct = args.Get<float>(State(0)),
                                          .add = signature().Accumulates(State(0))};
    return CudaStatus(kernels::TokenMetrics(chunks_.positions, Scores(args), LabelsOfBatch(),
                                            metrics, args.stream),
                      "linear cross-entropy");
  }

 private:
  bool trains() const { return signature().phase == Phase::kBackwardData; }
  int64_t LabelsOfBatch() const {
    return signature().part.WholeCount(chunks_.positions, signature().Spec(X(1)).shape.n());
  }
  std::byte* At(const LaunchArgs& args, int64_t offset) const {
    return static_cast<std::byte*>(args.run.workspace) + offset;
  }
  float* Scores(const LaunchArgs& args) const {
    return reinterpret_cast<float*>(At(args, chunks_.logits_bytes()));
  }
  void* BlasWorkspace(const LaunchArgs& args) const {
    return At(args, chunks_.logits_bytes() + chunks_.scores_bytes());
  }

  absl::Status RunChunk(const LaunchArgs& args, int64_t first, int64_t size) const {
    const TokenProducts& products = size == chunks_.size ? products_.front() : products_.back();
    const void* const x = kernels::After(args.Array(X(0)), first * chunks_.channels).data;
    const kernels::Array logits = {args.run.workspace, ElementOf(chunks_.dtype)};
    const kernels::LogitRows rows = {.rows = size,
                                     .classes = chunks_.classes,
                                     .apart = chunks_.apart(),
                                     .bias = args.Find<float>(Param(1))};
    RETURN_IF_ERROR(products.logits->Run({.a = args.Get<void>(Param(0)),
                                          .b = x,
                                          .c = logits.data,
                                          .workspace = BlasWorkspace(args)}));
    const int32_t* const labels = args.Get<int32_t>(X(1)) + first;
    float* const scores = Scores(args) + 2 * first;
    if (!trains()) {
      return CudaStatus(kernels::TokenLosses(rows, logits, labels, scores,
                                             args.Get<float>(Y()) + first, args.stream),
                        "linear cross-entropy");
    }
    const kernels::GradientScale scale = {
        .labels_of_batch = LabelsOfBatch(),
        .weight = signature().layer.As<LinearCrossEntropy>()->weight,
        .loss_scale = args.Find<LossScale>(LossScaling())};
    RETURN_IF_ERROR(
        CudaStatus(kernels::TokenGradients(rows, scale, logits, labels, scores, args.stream),
                   "gradient of linear cross-entropy"));
    return AddGradients(args, products, rows, first);
  }

  // dx, which may take the place of x, comes last.
  absl::Status AddGradients(const LaunchArgs& args, const TokenProducts& products,
                            const kernels::LogitRows& rows, int64_t first) const {
    const kernels::ConstArray gradient = {args.run.workspace, ElementOf(chunks_.dtype)};
    if (float* const dbias = args.Find<float>(ParamGrad(1)); dbias != nullptr) {
      const bool add = first > 0 || signature().Accumulates(ParamGrad(1));
      RETURN_IF_ERROR(CudaStatus(kernels::SumRows(rows, gradient, dbias, add, args.stream),
                                 "bias gradient of linear cross-entropy"));
    }
    float* const dweight = args.Get<float>(ParamGrad(0));
    const bool add = first > 0 || signature().Accumulates(ParamGrad(0));
    RETURN_IF_ERROR(
        products.dweight->Run({.a = kernels::After(args.Array(X(0)), first * chunks_.channels).data,
                               .b = gradient.data,
                               .c = dweight,
                               .workspace = BlasWorkspace(args),
                               .addend = add ? dweight : nullptr}));
    MatmulPointers dx = {.a = args.Get<void>(Param(0)),
                         .b = gradient.data,
                         .c = kernels::After(args.Array(Dx(0)), first * chunks_.channels).data,
                         .workspace = BlasWorkspace(args)};
    if (chunks_.by_example) std::swap(dx.a, dx.b);
    return products.dx->Run(dx);
  }

  TokenChunks chunks_;
  std::vector<TokenProducts> products_;  // of a chunk, and of a smaller last one
};

// How much longer than its products a step takes that reads and writes the 4 bytes of a gradient of
// the weight for each chunk: the three products multiply and add 6 times for each position, and
// tensor cores do so 150 times, others 15, while a byte moves.
double ChunkSlowdown(const StepSignature& signature, const TokenChunks& chunks) {
  if (signature.phase == Phase::kForward || chunks.size == chunks.positions) return 1;
  const double per_byte = chunks.dtype == DType::kFp32 ? 15 : 150;
  return 1 + per_byte * 8 / 6 / static_cast<double>(chunks.size);
}

Candidate ChunkedCandidate(const StepSignature& signature, const SharedRuntime& runtime,
                           std::string id, const TokenChunks& chunks) {
  const auto make = [signature, runtime,
                     chunks]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    auto kernel = std::make_unique<TokenLossStep>(runtime, signature, chunks);
    RETURN_IF_ERROR(kernel->Build());
    return kernel;
  };
  return StreamCandidate({.id = std::move(id),
                          .workspace_bytes = chunks.workspace_bytes(),
                          .slowdown = ChunkSlowdown(signature, chunks)},
                         make);
}

// Forward in training, whose loss backward computes.
cudaError_t WriteZeros(const LaunchArgs& a) {
  const auto zero = [&](Operand operand) {
    return cudaMemsetAsync(a.Get<void>(operand), 0,
                           static_cast<size_t>(a.signature.Spec(operand).size_bytes()), a.stream);
  };
  const bool measures = a.signature.Has(State(0)) && !a.signature.Accumulates(State(0));
  if (const cudaError_t error = zero(Y()); error != cudaSuccess || !measures) return error;
  return zero(State(0));
}

}  // namespace

absl::StatusOr<Candidates> LinearCrossEntropyCandidates(const StepSignature& signature,
                                                        const SharedRuntime& runtime) {
  if (signature.mode == Mode::kTraining && signature.phase == Phase::kForward)
    return OwnKernel(signature, runtime, WriteZeros);
  const TensorSpec& x = signature.Spec(X(0));
  TokenChunks chunks = {.dtype = x.dtype,
                        .channels = x.shape.c(),
                        .classes = signature.layer.As<LinearCrossEntropy>()->classes,
                        .positions = x.elements() / x.shape.c()};
  RETURN_IF_ERROR(CheckFits32(signature, chunks.positions));
  chunks.by_example = x.layout == Layout::kChannelsFirst && x.shape.positions() > 1;
  if (chunks.by_example) {
    chunks.size = x.shape.positions();
    return Candidates{ChunkedCandidate(signature, runtime, std::string(kByExample), chunks)};
  }
  Candidates candidates;
  for (const int64_t size : kChunks) {
    const bool is_smallest = size == *std::prev(std::end(kChunks));
    if (size > chunks.positions && !is_smallest) continue;
    chunks.size = std::min(size, chunks.positions);
    candidates.push_back(
        ChunkedCandidate(signature, runtime, absl::StrCat("chunks-", size), chunks));
  }
  return candidates;
}

}  // namespace neap::cuda
