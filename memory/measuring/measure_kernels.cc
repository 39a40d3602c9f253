#include "neap/memory/measuring/measure_kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/catalog/engine_id.h"
#include "neap/layers/profile/installed_timings.h"
#include "neap/layers/profile/kernel_bench.h"
#include "neap/layers/profile/profiled_timings.h"
#include "neap/memory/measuring/kernel_demand.h"
#include "neap/memory/planner.h"

namespace neap {
namespace {

using Clock = std::chrono::steady_clock;

// The first plans are quick ones. Each may run kernels that the one before did not, because it
// knows more times. If the time does not suffice for all of the first, this part of it is kept for
// the last. That is the session's unless the times change it: kernels that have been measured since
// would have to take longer, or less time, by kMinSurprise of the iteration.
constexpr int kPasses = 3;
constexpr double kMinSurprise = 5e-3;
constexpr double kKeptForLastPass = 0.25;
// Times of a round are used to choose what the next one measures.
constexpr double kRoundSeconds = 1.0;
// A measurement that is worth less than this part of an iteration is not made.
constexpr double kMinWorth = 2e-4;
// Workspace of engines where the budget does not limit it.
constexpr int64_t kWorkspaceBytes = 2 * kGiB;
constexpr double kNever = std::numeric_limits<double>::infinity();
// Not worth more samples: times as slow as what was measured, or as was predicted, if that is long.
constexpr double kHopeless = 3, kUnpredicted = 30;
constexpr double kLongSeconds = 50e-3;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// By how much a run differs from what the plan takes it to be: nothing if it is of a kernel that
// the plan does not run, and now has less reason to.
double SurpriseOf(const KernelDemand& demand, double expected_seconds,
                  const Measurement& measured) {
  if (measured.failed()) return demand.is_in_plan ? kNever : 0;
  const double gain = expected_seconds - measured.median_seconds;
  return demand.is_in_plan ? std::abs(gain) : std::max(gain, 0.0);
}

// A measured row as a line of text, and back.
std::string LineOf(const std::string& operation, const Measurement& row) {
  return absl::StrFormat("%s\t%d\t%s\t%d\t%d\t%.17g\t%.6g\t%d\t%s\n", operation, row.batch,
                         row.engine.id, row.engine.workspace_bytes,
                         row.engine.deterministic ? 1 : 0, row.median_seconds, row.spread,
                         row.repeats, absl::StrReplaceAll(row.failure, {{"\t", " "}, {"\n", " "}}));
}

std::optional<std::pair<std::string, Measurement>> ReadLine(absl::string_view line) {
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  if (fields.size() != 9) return std::nullopt;
  Measurement row = {.engine = EngineFromText(fields[2], 0, fields[4] == "1"),
                     .failure = fields[8]};
  const bool is_read = absl::SimpleAtoi(fields[1], &row.batch) &&
                       absl::SimpleAtoi(fields[3], &row.engine.workspace_bytes) &&
                       absl::SimpleAtod(fields[5], &row.median_seconds) &&
                       absl::SimpleAtod(fields[6], &row.spread) &&
                       absl::SimpleAtoi(fields[7], &row.repeats);
  if (!is_read) return std::nullopt;
  return std::pair(fields[0], std::move(row));
}

class Measuring {
 public:
  Measuring(const PlannerOptions& planning, Device& device, ProfileDatabase& database,
            const MeasuringOptions& options)
      : planning_(planning), device_(device), database_(database), options_(options) {}

  absl::StatusOr<MeasuringReport> Run(LowerWith lower, const PlanRequest& request) {
    RETURN_IF_ERROR(FindPeers(lower, request));
    absl::Status own;
    for (int pass = 0; pass < kPasses; ++pass) {
      const bool is_last = pass + 1 == kPasses;
      const bool would_repeat = pass > 0 && !is_last && options_.ranks == nullptr && !has_measured_;
      if (would_repeat) continue;
      limit_seconds_ = (is_last ? 1 : 1 - kKeptForLastPass) * options_.seconds;
      if (own.ok()) own = Pass(lower, request, is_last);
      report_.seconds = Seconds();
      // As often on all ranks, also after an error of this one.
      RETURN_IF_ERROR(Exchange());
      if (options_.ranks == nullptr && (is_over_ || !own.ok())) break;
    }
    RETURN_IF_ERROR(own);
    report_.seconds = Seconds();
    return report_;
  }

 private:
  double Seconds() const {
    return seconds_before_ + (start_.has_value() ? SecondsSince(*start_) : 0);
  }
  bool TimeIsOver() const { return is_over_ || Seconds() >= limit_seconds_; }

  absl::Status Pass(LowerWith lower, const PlanRequest& request, bool is_last) {
    if (TimeIsOver()) return absl::OkStatus();
    RETURN_IF_ERROR(ReadTimings());
    planning_.quick = !is_last;
    const std::shared_ptr<const Planner> planner = PlannerFor(planning_);
    const DeviceDescription& description = device_.description();
    absl::StatusOr<ChosenProgram> chosen =
        planner->Choose(lower, request, description, device_.backend());
    if (!chosen.ok()) return absl::OkStatus();  // the session says why
    absl::StatusOr<Program> program = lower(chosen->choice);
    if (!program.ok()) return absl::OkStatus();
    if (!chosen->plan.has_value()) {
      absl::StatusOr<PlanResult> planned =
          planner->Plan(*program, request, description, device_.backend());
      if (!planned.ok()) return absl::OkStatus();
      chosen->plan = *std::move(planned);
    }
    const Plan& plan = chosen->plan->plan;
    if (report_.planned_ms == 0) report_.planned_ms = plan.predicted_ms;
    report_.replanned_ms = plan.predicted_ms;
    has_measured_ = false;
    expected_seconds_.clear();
    surprise_seconds_ = 0;
    const absl::Status status = MeasureFor(*program, plan, request.budget_bytes);
    seconds_before_ = Seconds();
    start_.reset();
    const bool still_holds = surprise_seconds_ <= kMinSurprise * plan.predicted_ms * 1e-3;
    if (is_last && still_holds && options_.ranks == nullptr) report_.chosen = *std::move(chosen);
    return status;
  }

  absl::Status MeasureFor(const Program& program, const Plan& plan, int64_t budget_bytes) {
    const double least_worth = kMinWorth * plan.predicted_ms * 1e-3;
    for (;;) {
      ASSIGN_OR_RETURN(std::vector<KernelDemand> demands,
                       DemandsOf(program, plan, planning_.kernels, device_.description(),
                                 device_.backend(), made_));
      for (const KernelDemand& demand : demands)
        expected_seconds_.try_emplace({demand.signature, demand.engine.id}, demand.run_seconds);
      std::erase_if(demands, [&](const KernelDemand& demand) {
        return demand.worth_seconds < least_worth || !IsMine(demand);
      });
      report_.left = std::ssize(demands);
      if (!start_.has_value()) start_ = Clock::now();
      if (demands.empty() || TimeIsOver()) return absl::OkStatus();
      RETURN_IF_ERROR(Reserve(plan, demands, budget_bytes));
      if (is_over_) return absl::OkStatus();
      ASSIGN_OR_RETURN(const bool has_measured, MeasureRound(demands));
      if (!has_measured) return absl::OkStatus();
      RETURN_IF_ERROR(ReadTimings());
    }
  }

  // Ranks measure for each other where they have the same device, library, budget and number of
  // images: others run other kernels, or take other times for them.
  absl::Status FindPeers(LowerWith lower, const PlanRequest& request) {
    if (options_.ranks == nullptr) return absl::OkStatus();
    const absl::StatusOr<Program> program = lower(ProgramChoice{});
    const std::string own = absl::StrCat(database_.device().name, "\t", database_.device().versions,
                                         "\t", request.budget_bytes, "\t",
                                         program.ok() ? absl::StrCat(program->net.batch) : "none");
    ASSIGN_OR_RETURN(const std::vector<std::string> all,
                     options_.ranks->Exchange(own, TextExchange::Patience::kForFiles));
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (static_cast<int>(rank) == options_.ranks->rank()) place_ = peers_.size();
      if (all[rank] == own) peers_.push_back(rank);
    }
    return absl::OkStatus();
  }

  bool IsMine(const KernelDemand& demand) const {
    if (peers_.size() <= 1) return true;
    const uint64_t hash = StableHash(demand.engine.id, StableHash(SignatureText(demand.signature)));
    return hash % peers_.size() == place_;
  }

  // Memory for operands and workspace: as much as the plan's arena, and no more than the budget,
  // apart from the bench's own. A later plan's kernels may need more than those of the first.
  // Measuring is over if the device has not even the arena: the session says why.
  absl::Status Reserve(const Plan& plan, const std::vector<KernelDemand>& demands,
                       int64_t budget_bytes) {
    int64_t bytes = 0;
    for (const KernelDemand& demand : demands) {
      bytes =
          std::max(bytes, KernelBench::BytesFor(demand.signature, demand.engine.workspace_bytes));
    }
    const int64_t arena = KernelBench::kOwnBytes + plan.arena_bytes;
    const int64_t most = budget_bytes == kUnlimited
                             ? arena + kWorkspaceBytes
                             : std::max(KernelBench::kOwnBytes + budget_bytes, arena);
    bytes = std::clamp(bytes, arena, most);
    if (bench_.has_value() && asked_bytes_ >= bytes) return absl::OkStatus();
    asked_bytes_ = bytes;
    bench_.reset();
    for (const int64_t size : {bytes, arena}) {
      absl::StatusOr<KernelBench> bench = KernelBench::Create(device_, size, options_.samples);
      if (absl::IsResourceExhausted(bench.status())) continue;
      RETURN_IF_ERROR(bench.status());
      bench_.emplace(*std::move(bench));
      return absl::OkStatus();
    }
    is_over_ = true;
    return absl::OkStatus();
  }

  // Whether anything was measured.
  absl::StatusOr<bool> MeasureRound(const std::vector<KernelDemand>& demands) {
    const Clock::time_point begin = Clock::now();
    const int64_t before = report_.measured + report_.failed;
    for (const KernelDemand& demand : demands) {
      if (TimeIsOver()) break;
      if (demand.engine.workspace_bytes > bench_->WorkspaceBytes(demand.signature)) continue;
      RETURN_IF_ERROR(Measure(demand));
      --report_.left;
      if (options_.on_progress != nullptr) {
        report_.seconds = Seconds();
        is_over_ = !options_.on_progress(report_);
      }
      if (SecondsSince(begin) >= kRoundSeconds) break;
    }
    return report_.measured + report_.failed > before;
  }

  absl::Status Measure(const KernelDemand& demand) {
    RETURN_IF_ERROR(bench_->Place(demand.signature));
    const auto go_on = [this] { return !TimeIsOver(); };
    double& fastest = fastest_.try_emplace(demand.signature, kNever).first->second;
    const double hopeless_seconds =
        std::min(kHopeless * fastest, std::max(kUnpredicted * demand.run_seconds, kLongSeconds));
    const Clock::time_point begin = Clock::now();
    const absl::StatusOr<Measurement> measured =
        bench_->Measure(demand.signature, demand.engine, hopeless_seconds, go_on);
    if (absl::IsCancelled(measured.status())) return absl::OkStatus();
    if (absl::IsResourceExhausted(measured.status())) {
      is_over_ = true;
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(measured.status());
    if (measured->failed()) RETURN_IF_ERROR(device_.Synchronize());  // fails if the device did
    const double running_seconds =
        static_cast<double>(measured->repeats) * measured->median_seconds;
    made_.Add(demand.engine.id, std::max(SecondsSince(begin) - running_seconds, 0.0));
    ++(measured->failed() ? report_.failed : report_.measured);
    has_measured_ = true;
    const double expected_seconds = expected_seconds_.at({demand.signature, demand.engine.id});
    surprise_seconds_ +=
        static_cast<double>(demand.runs) * SurpriseOf(demand, expected_seconds, *measured);
    if (!measured->failed()) fastest = std::min(fastest, measured->median_seconds);
    const std::string operation = SignatureText(demand.signature);
    if (!database_.Record(operation, *measured, OnConflict::kKeepBetter).ok()) is_over_ = true;
    if (options_.ranks != nullptr) news_ += LineOf(operation, *measured);
    return absl::OkStatus();
  }

  // Tells the other ranks what this one has measured, and records what its peers have.
  absl::Status Exchange() {
    if (options_.ranks == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<std::string> news,
                     options_.ranks->Exchange(news_, TextExchange::Patience::kForFiles));
    news_.clear();
    for (const size_t rank : peers_) {
      if (static_cast<int>(rank) == options_.ranks->rank()) continue;
      for (const absl::string_view line : absl::StrSplit(news[rank], '\n', absl::SkipEmpty())) {
        const auto row = ReadLine(line);
        if (!row.has_value()) continue;
        ++report_.from_others;
        (void)database_.Record(row->first, row->second, OnConflict::kKeepBetter);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadTimings() {
    absl::StatusOr<ProfileDatabase> read =
        ProfileDatabase::OpenToRead(database_.path(), database_.device());
    RETURN_IF_ERROR(read.status());
    planning_.kernels.timings = std::make_shared<ProfiledTimings>(*std::move(read));
    if (options_.with_installed_times) {
      planning_.kernels.timings =
          WithInstalledTimings(std::move(planning_.kernels.timings), database_.device());
    }
    return absl::OkStatus();
  }

  PlannerOptions planning_;
  Device& device_;
  ProfileDatabase& database_;
  const MeasuringOptions& options_;
  // To list engines and to plan takes time that the session saves.
  double seconds_before_ = 0;               // of the passes before
  std::optional<Clock::time_point> start_;  // when the first demands of this pass were known
  double limit_seconds_ = 0;                // of the pass
  std::optional<KernelBench> bench_;
  int64_t asked_bytes_ = 0;  // for the bench, which has fewer if the device refused them
  absl::flat_hash_map<StepSignature, double> fastest_;  // seconds, of its measured engines
  MadeKernels made_;
  std::vector<size_t> peers_;  // ranks that measure for each other, in order; none without ranks
  size_t place_ = 0;           // of this rank among them
  std::string news_;           // lines that the other ranks do not have yet
  MeasuringReport report_;
  // In this pass: what the plan took a run to be, by kernel and engine.
  absl::flat_hash_map<std::pair<StepSignature, std::string>, double> expected_seconds_;
  bool has_measured_ = false;    // in this pass
  double surprise_seconds_ = 0;  // in this pass, of an iteration
  bool is_over_ = false;
};

}  // namespace

absl::StatusOr<MeasuringReport> MeasureKernels(LowerWith lower, const PlannerOptions& planning,
                                               const PlanRequest& request, Device& device,
                                               ProfileDatabase& database,
                                               const MeasuringOptions& options) {
  const bool is_strict = planning.strict || request.strict;
  if (options.seconds <= 0 || is_strict || device.description().kind == "cpu")
    return MeasuringReport{};
  return Measuring(planning, device, database, options).Run(lower, request);
}

absl::StatusOr<std::string> ReasonNotToMeasure(const absl::Status& database, TextExchange* ranks) {
  const std::string own =
      database.ok() ? "" : absl::StrCat("the database cannot be used: ", database.message());
  if (ranks == nullptr) return own;
  ASSIGN_OR_RETURN(const std::vector<std::string> reasons,
                   ranks->Exchange(own, TextExchange::Patience::kForFiles));
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    if (reasons[rank].empty()) continue;
    return static_cast<int>(rank) == ranks->rank()
               ? own
               : absl::StrCat("rank ", rank, ": ", reasons[rank]);
  }
  return std::string();
}

}  // namespace neap
