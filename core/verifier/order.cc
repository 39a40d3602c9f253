#include "neap/core/verifier/order.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap::verifier {
namespace {

constexpr size_t Index(Stream stream) { return static_cast<size_t>(stream); }

}  // namespace

Order::Order(const Plan& plan, const Site& site)
    : plan_(plan), site_(site), done_(plan.actions.size()) {
  concurrent_ = std::any_of(plan.actions.begin(), plan.actions.end(), [](const Action& action) {
    return StreamOf(action).value_or(Stream::kCompute) != Stream::kCompute;
  });
}

void Order::Begin(Stream stream) {
  stream_ = stream;
  std::vector<size_t>& issued = actions_[Index(stream)];
  issued.push_back(*site_.action());
  Clock& clock = clocks_[Index(stream)];
  clock[Index(stream)] = static_cast<int32_t>(issued.size());
  done_[*site_.action()] = clock;
}

absl::Status Order::Wait(const WaitAction& wait) {
  if (wait.stream == Stream::kInput)
    return site_.Fault(PlanFault::kWait, "stream input runs no action of a plan");
  if (wait.on < 0 || wait.on >= static_cast<int64_t>(*site_.action())) {
    return site_.Fault(PlanFault::kWait, "it waits for an action that is not an earlier one");
  }
  const size_t on = static_cast<size_t>(wait.on);
  if (!StreamOf(plan_.actions[on]).has_value()) {
    return site_.Fault(PlanFault::kWait, absl::StrCat(site_.Describe(on), " runs on no stream"));
  }
  Clock& clock = clocks_[Index(wait.stream)];
  for (size_t s = 0; s < clock.size(); ++s) clock[s] = std::max(clock[s], done_[on][s]);
  return absl::OkStatus();
}

bool Order::Knows(Stream stream, int32_t count) const {
  return stream == stream_ || clocks_[Index(stream_)][Index(stream)] >= count;
}

absl::Status Order::Race(std::string_view what, Stream other, int32_t count) const {
  const size_t action = actions_[Index(other)][static_cast<size_t>(count) - 1];
  return site_.Fault(
      PlanFault::kRace,
      absl::StrFormat("%s before %s is known to have finished: stream %s has to wait", what,
                      site_.Describe(action), Name(stream_)));
}

absl::Status Order::CheckAfterWrite(const Touches& touches, std::string_view what) const {
  if (!touches.writer.has_value() || Knows(*touches.writer, touches.write)) return absl::OkStatus();
  return Race(what, *touches.writer, touches.write);
}

absl::Status Order::CheckAfterReads(const Touches& touches, std::string_view what) const {
  for (Stream stream : kPlanStreams) {
    const int32_t count = touches.reads[Index(stream)];
    if (!Knows(stream, count)) return Race(what, stream, count);
  }
  return absl::OkStatus();
}

void Order::NoteRead(Touches& touches) const {
  touches.reads[Index(stream_)] = clocks_[Index(stream_)][Index(stream_)];
}

Order::Touches Order::Written() const {
  return {.writer = stream_, .write = clocks_[Index(stream_)][Index(stream_)]};
}

// The piece that begins at `at`.
Order::Pieces::iterator Order::Split(Pieces& pieces, int64_t at) {
  const auto after = pieces.lower_bound(at);
  if (after != pieces.end() && after->first == at) return after;
  return pieces.emplace_hint(after, at, std::prev(after)->second);
}

absl::Status Order::Read(Memory& memory, const Region& region) {
  if (!concurrent_) return absl::OkStatus();
  const auto begin = Split(memory.pieces, region.offset);
  const auto end = Split(memory.pieces, region.end());
  for (auto piece = begin; piece != end; ++piece) {
    RETURN_IF_ERROR(CheckAfterWrite(piece->second, memory.reads));
    NoteRead(piece->second);
  }
  return absl::OkStatus();
}

absl::Status Order::Write(Memory& memory, const Region& region) {
  if (!concurrent_) return absl::OkStatus();
  const auto begin = Split(memory.pieces, region.offset);
  const auto end = Split(memory.pieces, region.end());
  for (auto piece = begin; piece != end; ++piece) {
    RETURN_IF_ERROR(CheckAfterWrite(piece->second, memory.writes));
    RETURN_IF_ERROR(CheckAfterReads(piece->second, memory.writes));
  }
  begin->second = Written();
  memory.pieces.erase(std::next(begin), end);
  return absl::OkStatus();
}

absl::Status Order::Read(const Region& region) { return Read(arena_, region); }

absl::Status Order::Write(const Region& region) { return Write(arena_, region); }

absl::Status Order::ReadExternal(TensorId tensor) { return Read(external_, {tensor.value, 1}); }
absl::Status Order::WriteExternal(TensorId tensor) { return Write(external_, {tensor.value, 1}); }

absl::Status Order::ReadCopy(Pool pool, const Region& region) {
  return Read(pools_[static_cast<size_t>(pool)], region);
}

absl::Status Order::WriteCopy(Pool pool, const Region& region) {
  return Write(pools_[static_cast<size_t>(pool)], region);
}

}  // namespace neap::verifier
