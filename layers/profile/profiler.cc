#include "neap/layers/profile/profiler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/conv/measured_parts.h"
#include "neap/layers/profile/profile_steps.h"

namespace neap {
namespace {

constexpr double kHopeless = 3;     // times as slow as an engine that could replace it
constexpr double kLastResort = 10;  // times as slow as any other engine
constexpr double kCrawling = 100;   // times as slow as an engine that could replace it
// An engine that crawled in so many operations of a kind is left out.
constexpr size_t kCrawlingOperations = 2;
constexpr double kLongCrawlSeconds = 0.2;  // a crawling run of this length is worth a try first
constexpr int64_t kTriedParts = 64;        // the try runs on one of so many parts of the batch
constexpr double kNear = 1.15;             // times the fastest: near enough to measure

// The engine's row; null if `rows` does not have it.
const Measurement* FindMeasured(const std::vector<Measurement>& rows, const std::string& engine) {
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const Measurement& row) { return row.engine.id == engine; });
  return found == rows.end() ? nullptr : &*found;
}

// Whether the engine of `row` can replace `engine`: it needs no more workspace, is at least as
// deterministic, and adds in fp16 only if `engine` does.
bool MayReplace(const Measurement& row, const Engine& engine) {
  return !row.failed() && row.engine.workspace_bytes <= engine.workspace_bytes &&
         (row.engine.deterministic || !engine.deterministic) &&
         (!row.engine.accumulates_in_half || engine.accumulates_in_half);
}

// The time of the fastest engine that can replace `engine`, perhaps itself; infinite if none can.
double FastestReplacement(const std::vector<Measurement>& rows, const Engine& engine) {
  double seconds = std::numeric_limits<double>::infinity();
  for (const Measurement& row : rows) {
    if (MayReplace(row, engine)) seconds = std::min(seconds, row.median_seconds);
  }
  return seconds;
}

// The time from which on an engine is not worth more samples.
double HopelessSeconds(const std::vector<Measurement>& rows, const Engine& engine) {
  double seconds = kHopeless * FastestReplacement(rows, engine);
  for (const Measurement& row : rows) {
    if (!row.failed()) seconds = std::min(seconds, kLastResort * row.median_seconds);
  }
  return seconds;
}

// Whether the engine runs, and no engine that could replace it is clearly faster. `rows` has the
// measurements of the same batch.
bool IsNearFastest(const std::vector<Measurement>& rows, const Measurement& own) {
  return !own.failed() && own.median_seconds <= kNear * FastestReplacement(rows, own.engine);
}

// The steps in which an engine has much the same code.
std::string KindOf(const StepSignature& step) {
  std::string kind(TypeOf(step.layer, step.phase, step.optimizer));
  kind.append(" ").append(Name(step.phase));
  for (const OperandSpec& operand : step.operands) {
    kind.append(" ").append(Name(operand.tensor.dtype));
    kind.append(" ").append(Name(operand.tensor.layout));
  }
  return kind;
}

}  // namespace

absl::StatusOr<Profiler> Profiler::Create(const std::vector<StepSignature>& steps,
                                          const ProfileOptions& options, Device& device,
                                          ProfileDatabase& database) {
  ASSIGN_OR_RETURN(std::vector<StepSignature> all,
                   WithParts(steps, options.divisions, device.backend()));
  return CreateForShare(steps, std::move(all), options, device, database);
}

absl::StatusOr<Profiler> Profiler::CreateForShare(const std::vector<StepSignature>& steps,
                                                  std::vector<StepSignature> share,
                                                  const ProfileOptions& options, Device& device,
                                                  ProfileDatabase& database) {
  Profiler profiler(options, device, database);
  for (const StepSignature& step : steps)
    profiler.wholes_.emplace(SignatureText(step), BatchOf(step));
  profiler.steps_ = std::move(share);
  RETURN_IF_ERROR(profiler.Reserve());
  return profiler;
}

absl::Status Profiler::Reserve() {
  for (const StepSignature& step : steps_)
    operand_bytes_ = std::max(operand_bytes_, KernelBench::BytesFor(step, 0));
  const absl::StatusOr<int64_t> used = device_->UsedBytes();
  const int64_t free_bytes = device_->description().memory_bytes - (used.ok() ? *used : 0);
  // Libraries load code later, so some of the free memory is left to them.
  const int64_t most = free_bytes - free_bytes / 10 - operand_bytes_;
  if (most < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the largest step's operands take ", operand_bytes_, " bytes; ", free_bytes,
                     " of the device's ", device_->description().memory_bytes, " bytes are free"));
  }
  options_.workspace_limit_bytes = std::min(options_.workspace_limit_bytes, most);
  ASSIGN_OR_RETURN(KernelBench bench,
                   KernelBench::Create(*device_, operand_bytes_ + options_.workspace_limit_bytes,
                                       options_.samples));
  bench_.emplace(std::move(bench));
  return absl::OkStatus();
}

absl::Status Profiler::MeasureNext(const std::function<bool()>& go_on) {
  if (done_ == total()) return absl::OutOfRangeError("every step was measured");
  const StepSignature& step = steps_[static_cast<size_t>(done_)];
  const std::string operation = SignatureText(step);
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, EnginesFor(step, operation));
  ASSIGN_OR_RETURN(const std::vector<Measurement> known,
                   database_->Measurements(operation, BatchOf(step)));
  bool is_placed = false;                 // operands are placed before the first engine is measured
  std::vector<Measurement> measurements;  // to compare others with
  if (!options_.again) measurements = known;
  for (const Engine& engine : engines) {
    if (go_on != nullptr && !go_on()) return absl::CancelledError("stopped between two engines");
    const Measurement* const before = FindMeasured(known, engine.id);
    const bool again =
        before != nullptr && (before->failed() ? options_.retry_failed : options_.again);
    ASSIGN_OR_RETURN(const bool is_known, database_->Contains(operation, BatchOf(step), engine.id));
    if (is_known && !again) {
      ++known_;
      continue;
    }
    if (before == nullptr && IsCrawling(step, engine, measurements)) {
      ++left_out_;
      continue;
    }
    if (before == nullptr) {
      ASSIGN_OR_RETURN(const bool crawls, CrawlsOnPart(step, engine, measurements, go_on));
      left_out_ += crawls ? 1 : 0;
      if (crawls) continue;
    }
    if (!std::exchange(is_placed, true)) RETURN_IF_ERROR(bench_->Place(step));
    ASSIGN_OR_RETURN(Measurement measurement,
                     bench_->Measure(step, engine, HopelessSeconds(measurements, engine), go_on));
    // Another process may have recorded the same engine meanwhile.
    RETURN_IF_ERROR(database_->Record(operation, measurement,
                                      again ? OnConflict::kReplace : OnConflict::kKeepBetter));
    if (measurement.failed()) RETURN_IF_ERROR(device_->Synchronize());  // fails if the device did
    ++(measurement.failed() ? failed_ : measured_);
    if (measurement.spread > kWideSpread) ++wide_spreads_;
    measurements.push_back(std::move(measurement));
  }
  NoteCrawling(step, operation, measurements);
  ++done_;
  return absl::OkStatus();
}

bool Profiler::IsCrawling(const StepSignature& step, const Engine& engine,
                          const std::vector<Measurement>& rows) const {
  const auto crawled = crawled_.find(std::pair(KindOf(step), engine.id));
  return crawled != crawled_.end() && crawled->second.size() >= kCrawlingOperations &&
         std::isfinite(FastestReplacement(rows, engine));
}

void Profiler::NoteCrawling(const StepSignature& step, const std::string& operation,
                            const std::vector<Measurement>& rows) {
  const std::string kind = KindOf(step);
  for (const Measurement& own : rows) {
    if (own.failed()) continue;
    if (own.median_seconds > kCrawling * FastestReplacement(rows, own.engine)) {
      crawled_[std::pair(kind, own.engine.id)].insert(operation);
    } else {
      ran_well_.emplace(kind, own.engine.id);
    }
  }
}

absl::StatusOr<bool> Profiler::CrawlsOnPart(const StepSignature& step, const Engine& engine,
                                            const std::vector<Measurement>& rows,
                                            const std::function<bool()>& go_on) {
  const double crawl_seconds = kCrawling * FastestReplacement(rows, engine);
  const bool is_long = std::isfinite(crawl_seconds) && crawl_seconds >= kLongCrawlSeconds;
  const int64_t size = BatchOf(step) / kTriedParts;
  const bool has_part = IsDivisible(step) && size > 0 && size % BatchGranularity(step) == 0;
  if (!is_long || !has_part || ran_well_.contains(std::pair(KindOf(step), engine.id))) return false;
  const StepSignature part = WithBatch(step, size);
  const absl::StatusOr<Engine> own = device_->backend().Find(part, engine.id);
  if (!own.ok() || own->workspace_bytes > options_.workspace_limit_bytes) return false;
  RETURN_IF_ERROR(bench_->Place(part));
  ASSIGN_OR_RETURN(const Measurement tried,
                   bench_->Measure(part, *own, /*hopeless_seconds=*/0, go_on));
  RETURN_IF_ERROR(bench_->Place(step));
  if (tried.failed()) {
    // Says nothing about the whole, unless it made the device fail.
    RETURN_IF_ERROR(device_->Synchronize());
    return false;
  }
  const auto parts = static_cast<double>(BatchOf(step)) / static_cast<double>(size);
  return tried.median_seconds * parts > crawl_seconds;
}

absl::StatusOr<std::vector<Engine>> Profiler::EnginesFor(const StepSignature& step,
                                                         const std::string& operation) {
  const bool adds = AddsToGradients(step);
  EngineCatalog& catalog = device_->backend();
  ASSIGN_OR_RETURN(
      std::vector<Engine> engines,
      adds ? AddingEngines(step, catalog) : WholeEngines(step, options_.divisions, catalog));
  std::erase_if(engines, [&](const Engine& engine) {
    return engine.workspace_bytes > options_.workspace_limit_bytes;
  });
  if (options_.engines.has_value()) engines = FirstEngines(engines, *options_.engines);
  const int64_t batch = BatchOf(step);
  if (adds) {
    ASSIGN_OR_RETURN(const std::vector<Measurement> written,
                     database_->Measurements(SignatureText(WritingSignature(step)), batch));
    std::erase_if(engines, [&](const Engine& engine) {
      const Measurement* const row = FindMeasured(written, engine.id);
      return row == nullptr || !IsNearFastest(written, *row);
    });
    return engines;
  }
  const bool is_odd_part =
      IsDivisible(step) && !IsPowerOfTwo(batch) && !wholes_.contains(std::pair(operation, batch));
  if (!is_odd_part) return engines;
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(batch)));
  std::vector<std::vector<Measurement>> around;
  for (const int64_t near : {below, 2 * below}) {
    ASSIGN_OR_RETURN(std::vector<Measurement> rows, database_->Measurements(operation, near));
    if (!rows.empty()) around.push_back(std::move(rows));
  }
  if (around.empty()) return engines;
  std::erase_if(engines, [&](const Engine& engine) {
    return std::none_of(around.begin(), around.end(), [&](const std::vector<Measurement>& rows) {
      const Measurement* const row = FindMeasured(rows, engine.id);
      return row == nullptr || IsNearFastest(rows, *row);
    });
  });
  return engines;
}

absl::StatusOr<double> Profiler::MedianSeconds(const StepSignature& signature,
                                               const Configuration& configuration) {
  if (KernelBench::BytesFor(signature, 0) > operand_bytes_)
    return absl::InvalidArgumentError("the operands are larger than those of any profiled step");
  const int64_t available_bytes = bench_->WorkspaceBytes(signature);
  if (configuration.workspace_bytes > available_bytes) {
    return absl::AbortedError(absl::StrCat("needs ", configuration.workspace_bytes,
                                           " bytes of workspace, but only ", available_bytes,
                                           " are available"));
  }
  RETURN_IF_ERROR(bench_->Place(signature));
  const absl::StatusOr<double> seconds = bench_->MedianSeconds(signature, configuration);
  if (seconds.ok()) return seconds;
  // A failed device also fails here; otherwise only the engine failed.
  RETURN_IF_ERROR(device_->Synchronize());
  return absl::AbortedError(seconds.status().message());
}

}  // namespace neap
