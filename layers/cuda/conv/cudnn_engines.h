// cuDNN's engines by their ids and notes: which of them neap lists for a convolution, and the text
// by which lists are kept between runs.
//
// Needs neither a GPU nor cuDNN's headers (layers/cuda/conv/cudnn_convolution.h reads the notes).
//
//   ASSIGN_OR_RETURN(const EngineChoice choice, ParseEngineId("eng12_k2=1_k3=0"));
//   choice.engine;  // 12
//   choice.knobs;   // {{2, 1}, {3, 0}}
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/engine_lists.h"
#include "neap/layers/cuda/conv/convolution_problem.h"

namespace neap {

struct EngineChoice {
  int64_t engine = 0;
  std::vector<std::pair<int, int64_t>> knobs;  // {type, value}
};

// Errors: NOT_FOUND for a text that is no id.
absl::StatusOr<EngineChoice> ParseEngineId(std::string_view id);

// cuDNN's notes of an engine.
struct EngineNotes {
  bool tensor_core = false;
  bool winograd = false;
  bool fft = false;
  bool reduced_precision_reduction = false;
  bool nondeterministic = false;
  bool down_converts_inputs = false;
  bool is_compiled = false;  // when it is built
};

// An engine as cuDNN's heuristics list it.
struct HeuristicEngine {
  std::string id;
  int64_t workspace_bytes = 0;
  EngineNotes notes;
};

struct HeuristicList {
  std::vector<HeuristicEngine> engines;
  bool is_complete = true;  // no heuristic has failed
};

// A line per engine: "eng12_k2=1_k3=0 1048576 tn", with a letter for each note, or "-".
std::string ListText(const std::vector<HeuristicEngine>& engines);
// Nothing for a text that ListText() does not write.
std::optional<std::vector<HeuristicEngine>> ParseListText(std::string_view text);

// cuDNN's description of a GPU (JSON) without the numbers by which equal ones differ. Empty if
// the text is not such a description.
std::string KindOfGpu(const std::string& properties_json);

// The lists of one library on one device, kept between runs unless `lists` is null.
struct LibraryLists {
  std::string library;
  std::shared_ptr<EngineLists> lists;

  // Nothing if none is kept for the problem, or no text of ListText().
  std::optional<std::vector<HeuristicEngine>> Find(std::string_view problem) const;
  void Keep(std::string_view problem, const std::vector<HeuristicEngine>& engines) const;
};

// Whether this version of cuDNN, as cudnnGetVersion() returns it, is known to compute some
// convolutions with so many spatial axes wrongly: those of volumes before 9.15. A GPU that is
// present needs a newer one for all problems (CudnnConvolutions::ForDevice()), but not one that is
// only described.
constexpr bool IsTooOld(size_t version, int axes) { return axes == 3 && version < 91500; }
// UNIMPLEMENTED if it is, or if the problem is one of volumes with a tensor of 2^31 elements or
// more: cuDNN lists engines for those, too, but none has been seen to index them rightly.
absl::Status CheckTrusted(const ConvolutionProblem& problem, size_t version);

// Those that are allowed and trusted.
std::vector<Engine> Offered(const std::vector<HeuristicEngine>& engines,
                            const ConvolutionProblem& problem);

// Whether the engine is precise enough for the problem. fp32 excludes engines that round their
// inputs; tf32 allows tensor cores, but no lower precision. 16 bits allow tensor cores, but only
// sums in the type that the problem asks for. Of volumes, fp32 and tf32 exclude engines that are
// noted to add in lower precision, which cuDNN 9.19 lists for the weight gradient.
//
// With a ReLU, the heuristics also list engines that are compiled when they are built, but only on
// a machine with a GPU: a described device would have other engines than the device itself. They
// are left out.
bool IsAllowed(const EngineNotes& notes, const ConvolutionProblem& problem);

// Whether the engine has no known fault. Four of the weight gradient's engines in cuDNN 9.19 have.
// Engine 70 returns NaN if the memory that it is given holds NaN, which is possible in the arena
// (tf32). Engine 23 writes beyond the gradient if there are groups (tf32; 2x12x2x2, 3 groups, a
// kernel of 2x2). In depthwise convolutions, engine 17 has errors of up to 8e-4 of the largest
// element in fp32, as if it rounded to tf32, which its notes do not say, and engine 61 has 1.2e-3
// in fp16, more than one rounding.
bool IsTrusted(std::string_view id, const ConvolutionProblem& problem);

// "tensor-core winograd", for Engine::notes.
std::string TextOf(const EngineNotes& notes);

}  // namespace neap
