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
// A column of the logits begins at a multiple of kLogitAlignment bytes, and classes that are left
// over by kVectorBytes have products of their own: a vocabulary is seldom a number of classes that
// tensor cores like, and for an odd one cuBLAS has slow kernels only.
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
constexpr int64_t kVectorBytes = 16;

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

// Some of the classes.
struct ClassRange {
  int64_t first, count;
};

// The fewest last classes first, because their share of dx, to which that of the others is added,
// is the one that is rounded twice.
std::vector<ClassRange> RangesOf(const TokenChunks& chunks) {
  const int64_t left = chunks.classes % (kVectorBytes / SizeOf(chunks.dtype));
  const int64_t even = chunks.classes - left;
  std::vector<ClassRange> ranges;
  if (left > 0) ranges.push_back({even, left});
  if (even > 0) ranges.push_back({0, even});
  return ranges;
}

// The products of chunks of one size with some of the classes.
struct TokenProducts {
  ClassRange classes;
  std::unique_ptr<Matmul> logits, dweight, dx;

  static absl::StatusOr<TokenProducts> Build(const Runtime& runtime, const TokenChunks& c,
                                             const ClassRange& classes, int64_t size, bool trains) {
    TokenProducts products = {.classes = classes, .logits = {}, .dweight = {}, .dx = {}};
    const MatmulOptions options = {.workspace_bytes = c.blas_bytes()};
    const MatmulShape logits = {.transpose_a = true,
                                .transpose_b = c.by_example,
                                .m = classes.count,
                                .n = size,
                                .k = c.channels,
                                .alignment = c.alignment(),
                                .leading_c = c.apart()};
    ASSIGN_OR_RETURN(products.logits, Matmul::Build(runtime, logits, c.dtype, options));
    if (!trains) return products;
    const MatmulShape dweight = {.transpose_a = c.by_example,
                                 .transpose_b = true,
                                 .m = c.channels,
                                 .n = classes.count,
                                 .k = size,
                                 .alignment = c.alignment(),
                                 .leading_b = c.apart()};
    const MatmulTypes to_fp32(c.dtype, DType::kFp32);
    ASSIGN_OR_RETURN(products.dweight, Matmul::Build(runtime, dweight, to_fp32, options));
    MatmulShape dx = {.m = c.channels,
                      .n = size,
                      .k = classes.count,
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
    RETURN_IF_ERROR(BuildProducts(chunks_.size, of_chunk_));
    return chunks_.last() > 0 ? BuildProducts(chunks_.last(), of_last_) : absl::OkStatus();
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

  absl::Status BuildProducts(int64_t size, std::vector<TokenProducts>& all) const {
    for (const ClassRange& range : RangesOf(chunks_)) {
      ASSIGN_OR_RETURN(TokenProducts products,
                       TokenProducts::Build(runtime(), chunks_, range, size, trains()));
      all.push_back(std::move(products));
    }
    return absl::OkStatus();
  }
  // The rows of the weight that these classes have.
  const void* WeightOf(const LaunchArgs& args, const ClassRange& classes) const {
    return kernels::After(args.Array(Param(0)), classes.first * chunks_.channels).data;
  }

  absl::Status RunChunk(const LaunchArgs& args, int64_t first, int64_t size) const {
    const std::vector<TokenProducts>& all = size == chunks_.size ? of_chunk_ : of_last_;
    const void* const x = kernels::After(args.Array(X(0)), first * chunks_.channels).data;
    const kernels::Array logits = {args.run.workspace, ElementOf(chunks_.dtype)};
    const kernels::LogitRows rows = {.rows = size,
                                     .classes = chunks_.classes,
                                     .apart = chunks_.apart(),
                                     .bias = args.Find<float>(Param(1))};
    for (const TokenProducts& products : all) {
      RETURN_IF_ERROR(
          products.logits->Run({.a = WeightOf(args, products.classes),
                                .b = x,
                                .c = kernels::After(logits, products.classes.first).data,
                                .workspace = BlasWorkspace(args)}));
    }
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
    return AddGradients(args, all, rows, first);
  }

  // dx, which may take the place of x, comes last.
  absl::Status AddGradients(const LaunchArgs& args, const std::vector<TokenProducts>& all,
                            const kernels::LogitRows& rows, int64_t first) const {
    const kernels::Array gradient = {args.run.workspace, ElementOf(chunks_.dtype)};
    if (float* const dbias = args.Find<float>(ParamGrad(1)); dbias != nullptr) {
      const bool add = first > 0 || signature().Accumulates(ParamGrad(1));
      RETURN_IF_ERROR(CudaStatus(kernels::SumRows(rows, gradient, dbias, add, args.stream),
                                 "bias gradient of linear cross-entropy"));
    }
    const void* const x = kernels::After(args.Array(X(0)), first * chunks_.channels).data;
    const bool add = first > 0 || signature().Accumulates(ParamGrad(0));
    for (const TokenProducts& products : all) {
      const int64_t row = products.classes.first;
      float* const dweight = args.Get<float>(ParamGrad(0)) + row * chunks_.channels;
      RETURN_IF_ERROR(products.dweight->Run({.a = x,
                                             .b = kernels::After(gradient, row).data,
                                             .c = dweight,
                                             .workspace = BlasWorkspace(args),
                                             .addend = add ? dweight : nullptr}));
    }
    void* const dx = kernels::After(args.Array(Dx(0)), first * chunks_.channels).data;
    for (const TokenProducts& products : all) {
      MatmulPointers pointers = {.a = WeightOf(args, products.classes),
                                 .b = kernels::After(gradient, products.classes.first).data,
                                 .c = dx,
                                 .workspace = BlasWorkspace(args),
                                 .addend = &products == &all.front() ? nullptr : dx};
      if (chunks_.by_example) std::swap(pointers.a, pointers.b);
      RETURN_IF_ERROR(products.dx->Run(pointers));
    }
    return absl::OkStatus();
  }

  TokenChunks chunks_;
  std::vector<TokenProducts> of_chunk_, of_last_;  // for each range of classes; a smaller last one
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
