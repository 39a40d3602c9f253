#include "neap/layers/tokens/linear_cross_entropy.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/units.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/loss/softmax_column.h"
#include "neap/layers/cpu/onednn.h"
#include "neap/layers/cpu/tokens/matrix_product.h"
#include "neap/layers/cpu/tokens/token_vectors.h"

namespace neap::cpu {
namespace {

using namespace operands;

constexpr int64_t kChunkPositions = 128;

// The positions of x in chunks of one matrix {positions, C} each: of all examples together, or with
// channels first of one example after another.
struct Chunks {
  int64_t examples, positions;  // matrices, and the positions of each
  int64_t channels, classes;
  int64_t row_step, column_step;  // of such a matrix

  Chunks(const TensorSpec& x, int64_t of_classes) : channels(x.shape.c()), classes(of_classes) {
    const TokenVectors vectors(x);
    const bool together = vectors.apart == 1;
    examples = together ? 1 : x.shape.n();
    positions = together ? vectors.count : vectors.positions;
    row_step = together ? channels : 1;
    column_step = vectors.apart;
  }
  int64_t largest() const { return std::min(positions, kChunkPositions); }
  int64_t last() const { return positions % largest(); }  // 0 if all have the same size
  int64_t logits_bytes() const {
    return RoundUp(largest() * classes * int64_t{sizeof(float)}, kWorkspaceAlignment);
  }
};

// The products of a chunk of so many positions. With channels first, dx is computed as its
// transpose, whose rows are contiguous.
struct ChunkProducts {
  MatrixProduct logits;
  std::optional<MatrixProduct> dweight, dweight_added, dx;
  bool transposes_dx;

  ChunkProducts(const Chunks& chunks, int64_t size, bool trains)
      : logits(Rows(chunks, size), Weight(chunks).Transposed(), Logits(chunks, size), false),
        transposes_dx(chunks.column_step != 1) {
    if (!trains) return;
    const MatrixView gradient = Logits(chunks, size), x = Rows(chunks, size);
    dweight.emplace(gradient.Transposed(), x, Weight(chunks), false);
    dweight_added.emplace(gradient.Transposed(), x, Weight(chunks), true);
    if (transposes_dx) {
      dx.emplace(Weight(chunks).Transposed(), gradient.Transposed(), x.Transposed(), false);
    } else {
      dx.emplace(gradient, Weight(chunks), x, false);
    }
  }
  static MatrixView Rows(const Chunks& chunks, int64_t size) {
    return {size, chunks.channels, chunks.row_step, chunks.column_step};
  }
  static MatrixView Weight(const Chunks& chunks) {
    return {chunks.classes, chunks.channels, chunks.channels, 1};
  }
  static MatrixView Logits(const Chunks& chunks, int64_t size) {
    return {size, chunks.classes, chunks.classes, 1};
  }
  template <typename Visit>
  void ForEach(const Visit& visit) {
    visit(logits);
    for (std::optional<MatrixProduct>* product : {&dweight, &dweight_added, &dx}) {
      if (product->has_value()) visit(**product);
    }
  }
};

// A chunk while it is computed.
struct Chunk {
  const ChunkProducts& products;
  int64_t size, first;  // positions, of which the first is this one of the batch
  int64_t place;        // of its first element in x
  bool is_first;
};

class LinearCrossEntropyKernel final : public Kernel {
 public:
  LinearCrossEntropyKernel(StepSignature signature, Chunks chunks,
                           std::vector<ChunkProducts> products, int64_t workspace_bytes)
      : signature_(std::move(signature)),
        chunks_(chunks),
        products_(std::move(products)),
        workspace_bytes_(workspace_bytes) {
    for (ChunkProducts& each : products_)
      each.ForEach([](MatrixProduct& product) { product.MakeRunnable(); });
  }

  // The workspace may be too small if the engine was listed for fewer OpenMP threads.
  absl::Status Run(const KernelArgs& args) override {
    if (args.workspace_bytes < workspace_bytes_) {
      return absl::InternalError(absl::StrCat("linear_cross_entropy needs ", workspace_bytes_,
                                              " bytes of workspace, not ", args.workspace_bytes));
    }
    try {
      Compute({.signature = signature_, .run = args});
      return absl::OkStatus();
    } catch (const dnnl::error& error) {
      return OnednnError(error, "execute", signature_);
    }
  }

 private:
  void Compute(const LoopArgs& args) const {
    double loss = 0;
    int64_t correct = 0;
    for (int64_t example = 0; example < chunks_.examples; ++example) {
      for (int64_t first = 0; first < chunks_.positions; first += chunks_.largest()) {
        const int64_t size = std::min(chunks_.largest(), chunks_.positions - first);
        const Chunk chunk = {
            .products = products_[size == chunks_.largest() ? 0 : 1],
            .size = size,
            .first = example * chunks_.positions + first,
            .place = example * chunks_.positions * chunks_.channels + first * chunks_.row_step,
            .is_first = example == 0 && first == 0};
        float* const logits = MakeLogits(args, chunk);
        for (int64_t i = 0; i < size; ++i) {
          const ClassScore score = Measure(args, chunk.first + i, logits + i * chunks_.classes);
          loss += score.loss;
          correct += score.correct ? 1 : 0;
        }
        if (signature_.phase == Phase::kBackwardData) MakeGradients(args, chunk, logits);
      }
    }
    StoreMetrics(args, loss / static_cast<double>(LabelsOfBatch()), correct);
  }

  void* Scratch(const LoopArgs& args) const {
    return args.Workspace<std::byte>() + chunks_.logits_bytes();
  }

  int64_t LabelsOfBatch() const {
    const Shape& labels = signature_.Spec(X(1)).shape;
    return signature_.part.WholeCount(labels.elements(), labels.n());
  }

  float* MakeLogits(const LoopArgs& args, const Chunk& chunk) const {
    float* const logits = args.Workspace<float>();
    chunk.products.logits.Run(args.Get<float>(X(0)) + chunk.place, args.Get<float>(Param(0)),
                              logits, Scratch(args));
    RoundAs(signature_.Spec(X(0)).dtype, [&](auto round) {
      std::transform(logits, logits + chunk.size * chunks_.classes, logits, round);
    });
    const float* const bias = args.Find<float>(Param(1));
    for (int64_t i = 0; bias != nullptr && i < chunk.size * chunks_.classes; ++i)
      logits[i] += bias[i % chunks_.classes];
    return logits;
  }

  // Makes the logits of a position their gradient in training, and writes the loss in inference.
  ClassScore Measure(const LoopArgs& args, int64_t position, float* logits) const {
    const int32_t label = args.Get<int32_t>(X(1))[position];
    const ClassScore score = SoftmaxColumn({logits, 1}, chunks_.classes, label, {}, {logits, 1});
    if (signature_.phase == Phase::kForward) {
      args.Get<float>(Y())[position] = static_cast<float>(score.loss);
      return score;
    }
    const float factor = GradientFactor(args, signature_.layer.As<LinearCrossEntropy>()->weight);
    const auto count = static_cast<float>(LabelsOfBatch());
    if (label >= 0 && label < chunks_.classes) logits[label] -= 1;
    RoundAs(signature_.Spec(X(0)).dtype, [&](auto round) {
      for (int64_t c = 0; c < chunks_.classes; ++c)
        logits[c] = label == kNoLabel ? 0.0F : round(logits[c] / count * factor);
    });
    return score;
  }

  void MakeGradients(const LoopArgs& args, const Chunk& chunk, const float* gradient) const {
    const auto adds = [&](Operand operand) {
      return !chunk.is_first || signature_.Accumulates(operand);
    };
    if (float* const dbias = args.Find<float>(ParamGrad(1)); dbias != nullptr) {
      if (!adds(ParamGrad(1))) std::fill_n(dbias, chunks_.classes, 0.0F);
      for (int64_t i = 0; i < chunk.size * chunks_.classes; ++i)
        dbias[i % chunks_.classes] += gradient[i];
    }
    const MatrixProduct& dweight =
        adds(ParamGrad(0)) ? *chunk.products.dweight_added : *chunk.products.dweight;
    dweight.Run(gradient, args.Get<float>(X(0)) + chunk.place, args.Get<float>(ParamGrad(0)),
                Scratch(args));
    const float* const weight = args.Get<float>(Param(0));
    float* const dx = args.Get<float>(Dx(0)) + chunk.place;
    if (chunk.products.transposes_dx) {
      chunk.products.dx->Run(weight, gradient, dx, Scratch(args));
    } else {
      chunk.products.dx->Run(gradient, weight, dx, Scratch(args));
    }
  }

  StepSignature signature_;
  Chunks chunks_;
  std::vector<ChunkProducts> products_;  // of a chunk, and of a smaller last one
  int64_t workspace_bytes_;
};

// Forward in training, whose loss backward computes.
void WriteZeros(const LoopArgs& args) {
  std::fill_n(args.Get<float>(Y()), args.Elements(Y()), 0.0F);
  StoreMetrics(args, 0, 0);
}

}  // namespace

absl::StatusOr<Candidates> LinearCrossEntropySteps(const StepSignature& signature) {
  const bool trains = signature.mode == Mode::kTraining;
  if (trains && signature.phase == Phase::kForward) return OwnLoop(signature, WriteZeros);
  return GuardOnednn(signature, [&]() -> Candidates {
    const Chunks chunks(signature.Spec(X(0)), signature.layer.As<LinearCrossEntropy>()->classes);
    std::vector<ChunkProducts> products;
    for (const int64_t size : {chunks.largest(), chunks.last()}) {
      if (size > 0) products.emplace_back(chunks, size, trains);
    }
    int64_t scratch = 0;
    for (ChunkProducts& each : products) {
      each.ForEach([&](const MatrixProduct& product) {
        scratch = std::max(scratch, product.scratch_bytes());
      });
    }
    const int64_t bytes = chunks.logits_bytes() + scratch;
    const auto make = [signature, chunks, products,
                       bytes]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
      try {
        return std::make_unique<LinearCrossEntropyKernel>(signature, chunks, products, bytes);
      } catch (const dnnl::error& error) {
        return OnednnError(error, "primitive", signature);
      }
    };
    return {{.engine = {.id = "onednn", .workspace_bytes = bytes}, .make = make}};
  });
}

}  // namespace neap::cpu
