#include "neap/layers/conv/estimated_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/conv/engine_losses.h"
#include "neap/layers/conv/measured_parts.h"

namespace neap {
namespace {

// Engines that the library expects to be slower than its first by more than this do not calibrate.
constexpr double kMaxCalibrating = 1.6;
// A kernel for more than 2^31 elements that takes so many times the model's time is of another kind
// than those for fewer: it says nothing of parts.
constexpr double kOtherKind = 16;

bool HasLongIndices(const StepSignature& signature) {
  return std::any_of(signature.operands.begin(), signature.operands.end(), [](const auto& operand) {
    return operand.tensor.elements() > std::numeric_limits<int32_t>::max();
  });
}
// Parts are estimated where the fastest engine needs so much more workspace than one that is slower
// by this factor.
constexpr int64_t kMinSpareBytes = 16 * kMiB;
constexpr double kMinGain = 1.05;
// The smallest part that is estimated, as a part of the batch, unless the rest needs a smaller one.
constexpr int64_t kMaxParts = 32;

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class Estimator {
 public:
  Estimator(const StepSignature& signature, const EstimateOptions& options, EngineCatalog& catalog)
      : signature_(signature), options_(options), catalog_(catalog), batch_(BatchOf(signature)) {}

  absl::StatusOr<std::vector<TimedEngine>> Run(absl::Span<const Engine> listed) {
    const std::vector<Engine> engines(listed.begin(), listed.end());
    if (options_.timings != nullptr) {
      known_ = MeasuredPartsOf(signature_, listed, options_.divisions, options_.deterministic,
                               *options_.timings);
      for (TimedEngine& known : known_) {
        if (!known.addition.seconds.has_value()) known.addition = AdditionOf(PartOf(known.batch));
      }
      for (const TimedEngine& row : options_.timings->Of(signature_)) {
        if (IsOfOtherKind(row)) continue;
        measured_[row.engine].emplace_back(row.batch, row.seconds);
        if (row.source == TimeSource::kMeasured)
          calibrating_[row.engine].emplace_back(row.batch, row.seconds);
      }
      // Times of other versions of the library say more than none.
      if (calibrating_.empty()) calibrating_ = measured_;
    }
    only_in_parts_ = listed.empty();
    const TimedEngine* const measured = FastestWhole();
    whole_is_slow_ = AllLoseMuch(engines, GroupOf(signature_)) ||
                     (measured != nullptr && IsOfOtherKind(*measured));
    Calibrate(engines);
    Add(signature_, engines);
    if (MayGainFromParts()) RETURN_IF_ERROR(AddParts());
    return std::move(known_);
  }

 private:
  struct Listed {
    std::vector<Engine> engines;
    std::vector<double> seconds;  // by the cost model, before calibration
  };

  double FlopsOfPart(const StepSignature& part) const {
    const double share = static_cast<double>(BatchOf(part)) / static_cast<double>(batch_);
    return options_.flops * share;
  }
  double ModelSeconds(const StepSignature& part) const {
    return PredictSeconds(part, FlopsOfPart(part), options_.device);
  }

  Listed ModelOf(const StepSignature& part, const std::vector<Engine>& engines) const {
    const double first = ModelSeconds(part);
    const double most = MostLossOf(FlopsOfPart(part), first, options_.device);
    Listed listed = {.engines = engines, .seconds = SlowdownsOf(engines, GroupOf(part), most)};
    for (double& seconds : listed.seconds) seconds *= first;
    return listed;
  }
  bool IsOfOtherKind(const TimedEngine& measured) const {
    const StepSignature part = PartOf(measured.batch);
    return HasLongIndices(part) && measured.seconds >= kOtherKind * ModelSeconds(part);
  }
  // The fastest of the engines for the whole batch that are known so far; null if there are none.
  const TimedEngine* FastestWhole() const {
    const TimedEngine* fastest = nullptr;
    for (const TimedEngine& known : known_) {
      if (known.batch == batch_ && (fastest == nullptr || known.seconds < fastest->seconds))
        fastest = &known;
    }
    return fastest;
  }
  std::string GroupOf(const StepSignature& part) const {
    return FeaturesOf(part, options_.flops, options_.device).group;
  }

  // Finds the factor by which the model is wrong about measured engines of the batch and its parts.
  void Calibrate(const std::vector<Engine>& engines) {
    if (calibrating_.empty()) return;
    const std::vector<double> slowdowns = SlowdownsOf(engines, GroupOf(signature_));
    std::vector<double> logarithms;
    for (size_t i = 0; i < engines.size(); ++i) {
      const auto rows = calibrating_.find(engines[i].id);
      // A slow engine's factor says little about the fast ones.
      if (rows == calibrating_.end() || slowdowns[i] > kMaxCalibrating) continue;
      for (const auto& [images, seconds] : rows->second) {
        const double model = slowdowns[i] * ModelSeconds(PartOf(images));
        logarithms.push_back(std::log(seconds / model));
      }
    }
    if (!logarithms.empty()) calibration_ = std::exp(MedianOf(std::move(logarithms)));
  }

  StepSignature PartOf(int64_t images) const {
    return images == batch_ ? signature_ : WithBatch(signature_, images);
  }

  // Adds the engines for a part, or the whole batch, that were not measured.
  void Add(const StepSignature& part, const std::vector<Engine>& engines) {
    const int64_t images = BatchOf(part);
    const Listed listed = ModelOf(part, engines);
    const std::vector<Engine> usable =
        UsableEngines(part, engines, /*deterministic=*/true, options_.timings);
    for (const Engine& engine : usable) {
      const bool is_known =
          std::any_of(known_.begin(), known_.end(), [&](const TimedEngine& known) {
            return known.batch == images && known.engine == engine.id && !known.adds;
          });
      if (is_known) continue;
      const auto place = std::find_if(engines.begin(), engines.end(),
                                      [&](const Engine& e) { return e.id == engine.id; });
      const std::optional<double> between = Interpolate(engine.id, images);
      const double model = listed.seconds[static_cast<size_t>(place - engines.begin())];
      // An engine is not taken to be faster for each image because there are fewer of them.
      const double least = std::max(
          FastestExpectedBefore(listed, model, images),
          WholeSeconds(engine.id) * static_cast<double>(images) / static_cast<double>(batch_));
      known_.push_back(
          WithTime(engine, images, std::max(between.value_or(calibration_ * model), least)));
      known_.back().addition = AdditionOf(part);
      known_.back().source = between.has_value() ? TimeSource::kInterpolated : TimeSource::kModel;
    }
  }

  // The engine's time for the whole batch; 0 if it is not listed for it, or of another kind.
  double WholeSeconds(const std::string& engine) const {
    for (const TimedEngine& known : known_) {
      if (known.batch == batch_ && known.engine == engine && !known.adds)
        return IsOfOtherKind(known) ? 0 : known.seconds;
    }
    return 0;
  }

  // The least measured time for so many images of the engines that are expected to be as fast; 0 if
  // none was measured.
  double FastestExpectedBefore(const Listed& listed, double model, int64_t images) const {
    double fastest = 0;
    for (const TimedEngine& known : known_) {
      if (known.batch != images || known.source != TimeSource::kMeasured) continue;
      for (size_t i = 0; i < listed.engines.size(); ++i) {
        if (listed.engines[i].id != known.engine || listed.seconds[i] > model) continue;
        fastest = fastest == 0 ? known.seconds : std::min(fastest, known.seconds);
      }
    }
    return fastest;
  }

  // The seconds from measured sizes of the engine: the nearest ones, or one and the time of a
  // launch; for fewer images than in any at least what the model makes of the smallest.
  std::optional<double> Interpolate(const std::string& engine, int64_t images) const {
    const auto rows = measured_.find(engine);
    if (rows == measured_.end()) return std::nullopt;
    std::pair<int64_t, double> below = {0, kLaunchSeconds}, above = {0, 0};
    std::pair<int64_t, double> further_below = below;
    for (const auto& row : rows->second) {
      if (row.first <= images && row.first > below.first) {
        further_below = below;
        below = row;
      } else if (row.first <= images && row.first > further_below.first) {
        further_below = row;
      }
      if (row.first > images && (above.first == 0 || row.first < above.first)) above = row;
    }
    // More images than were measured do not take less time, whatever has disturbed a measurement.
    const double least = above.first == 0 ? below.second : kLaunchSeconds;
    if (above.first == 0) std::swap(above, below), below = further_below;
    const bool is_below_all = below.first == 0 && images < above.first;
    const double slope =
        (above.second - below.second) / static_cast<double>(above.first - below.first);
    const double linear = below.second + slope * static_cast<double>(images - below.first);
    // Few images leave multiprocessors idle, of which only the model knows.
    const double modelled = is_below_all ? above.second * ModelSeconds(PartOf(images)) /
                                               ModelSeconds(PartOf(above.first))
                                         : 0;
    return std::max({linear, modelled, least});
  }

  // The additional cost of a part that is not the first.
  Addition AdditionOf(const StepSignature& part) const {
    Addition addition;
    if (!IsDivisible(part) || !SumsParts(part)) return addition;
    addition.workspace_bytes = DivisionScratchBytes(part);
    for (const OperandSpec& operand : part.operands) {
      if (operand.operand.slot != Slot::kParamGrad) continue;
      std::optional<double> seconds;
      if (options_.timings != nullptr) seconds = AdditionSeconds(operand.tensor, *options_.timings);
      *addition.seconds +=
          seconds.value_or(PredictAdditionSeconds(operand.tensor, options_.device));
    }
    return addition;
  }

  // Whether a slower engine for the whole batch needs much less workspace than the fastest, or the
  // fast ones, or all, are not listed for so large a batch.
  bool MayGainFromParts() const {
    if (!IsDivisible(signature_) || options_.divisions == DivisionPolicy::kUndivided) return false;
    if (options_.device.kind == "cpu") return false;
    if (only_in_parts_) return true;
    const TimedEngine* const fastest = FastestWhole();
    if (fastest == nullptr) return false;
    if (whole_is_slow_) return true;
    double least = std::numeric_limits<double>::infinity();  // with less workspace
    for (const TimedEngine& known : known_) {
      if (known.batch == batch_ &&
          known.workspace_bytes + kMinSpareBytes <= fastest->workspace_bytes)
        least = std::min(least, known.seconds);
    }
    return fastest->workspace_bytes >= kMinSpareBytes && least >= kMinGain * fastest->seconds;
  }

  absl::Status AddParts() {
    const int64_t granularity = BatchGranularity(signature_);
    for (const int64_t size : MicroBatchSizes(DivisionPolicy::kPowerOfTwo, batch_, granularity)) {
      const bool ends_batch = (batch_ & size) != 0 || !IsPowerOfTwo(size);
      if (size == batch_ || (size * kMaxParts < batch_ && !ends_batch)) continue;
      const StepSignature part = WithBatch(signature_, size);
      ASSIGN_OR_RETURN(const std::vector<Engine> engines, EnginesOrNone(part, catalog_));
      if (!engines.empty()) Add(part, engines);  // else this part is too large, too
    }
    return absl::OkStatus();
  }

  const StepSignature& signature_;
  const EstimateOptions& options_;
  EngineCatalog& catalog_;
  const int64_t batch_;
  std::vector<TimedEngine> known_;
  // Images and seconds of the engines that do not add and have times, and of those by which the
  // model is calibrated.
  using Sizes = std::vector<std::pair<int64_t, double>>;
  absl::flat_hash_map<std::string, Sizes> measured_, calibrating_;
  double calibration_ = 1;
  bool whole_is_slow_ = false;  // far slower than parts, of which it says nothing
  bool only_in_parts_ = false;  // no engine is listed for the whole batch
};

}  // namespace

absl::StatusOr<std::vector<TimedEngine>> EstimatedPartsOf(const StepSignature& signature,
                                                          absl::Span<const Engine> listed,
                                                          const EstimateOptions& options,
                                                          EngineCatalog& catalog) {
  return Estimator(signature, options, catalog).Run(listed);
}

}  // namespace neap
