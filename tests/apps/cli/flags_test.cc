#include "apps/cli/flags.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace neap::apps {
namespace {

struct Given {
  std::string net;
  std::optional<int64_t> budget;
  std::optional<int64_t> batch;
  std::string batch_file;
  float rate = 0;
};

void AddTo(Given& given, FlagSet& flags) {
  flags.Positional("NET", "a network", &given.net);
  flags.Add("budget", "BYTES", "device memory", ReadBytes(&given.budget));
  flags.Add("batch-file", "FILE", "one batch", Text(&given.batch_file));
  flags.Add("batch", "N", "images in a batch", Integer(1, 1000, &given.batch));
  flags.Add("lr", "X", "learning rate", Real(0, 1, &given.rate));
}

Given MustParse(const std::vector<std::string>& args) {
  Given given;
  FlagSet flags("neap", "");
  AddTo(given, flags);
  const absl::Status status = flags.Parse(args);
  REQUIRE_MESSAGE(status.ok(), status.ToString());
  return given;
}

std::string Refusal(const std::vector<std::string>& args) {
  Given given;
  FlagSet flags("neap", "");
  AddTo(given, flags);
  return std::string(flags.Parse(args).message());
}

TEST_CASE("an unknown flag is answered by its meaning, and otherwise by its spelling") {
  CHECK(Refusal({"--batch-size", "8"}) == "unknown flag --batch-size; did you mean --batch?");
  CHECK(Refusal({"--batch_size=8"}) == "unknown flag --batch_size; did you mean --batch?");
  CHECK(Refusal({"--learning-rate", "1"}) == "unknown flag --learning-rate; did you mean --lr?");
  CHECK(Refusal({"--batch_file", "x"}) == "unknown flag --batch_file; did you mean --batch-file?");
  CHECK(Refusal({"--memory", "1GiB"}) == "unknown flag --memory; did you mean --budget?");
  CHECK(Refusal({"--budgte", "1GiB"}) == "unknown flag --budgte; did you mean --budget?");
  CHECK(Refusal({"--num-workers", "1"}) == "unknown flag --num-workers; --help lists the flags");
}

TEST_CASE("a size is one argument or two, in any place") {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--budget", "12GiB", "lenet"},
        {"--budget", "12 GiB", "lenet"},
        {"--budget", "12", "GiB", "lenet"},
        {"lenet", "--budget", "12", "gib"},
        {"lenet", "--budget=12 GiB"}}) {
    const Given given = MustParse(args);
    CHECK(given.budget == int64_t{12} << 30);
    CHECK(given.net == "lenet");
  }
  const Given bytes = MustParse({"--budget", "4096", "lenet"});
  CHECK(bytes.budget == 4096);
  CHECK(bytes.net == "lenet");
  CHECK(Refusal({"--batch", "12", "GiB", "lenet"}).find("unexpected argument 'lenet'") == 0);
  CHECK(Refusal({"--budget", "1GiB", "GiB", "lenet"}).find("unexpected argument 'lenet'") == 0);
}

TEST_CASE("a long help text has sections, and a short one has not") {
  Given given;
  FlagSet flags("neap", "About.");
  AddTo(given, flags);
  CHECK(flags.HelpText().find("\nflags:\n  --budget BYTES") != std::string::npos);
  bool others[20] = {};
  for (size_t i = 0; i < std::size(others); ++i)
    flags.Add("own-" + std::to_string(i), "a switch", &others[i]);
  const std::string help = flags.HelpText();
  size_t last = 0;
  for (const char* text : {"\nnetwork:\n  --batch N ", "\n\ndata:\n  --batch-file FILE ",
                           "\n\nmemory and plan:\n  --budget BYTES ", "\n\ntraining:\n  --lr X ",
                           "\n\nother flags:\n  --own-0 ", "\n  --own-19 ", "\n  --help "}) {
    CAPTURE(text);
    const size_t found = help.find(text);
    CHECK(found != std::string::npos);
    CHECK(found >= last);
    last = found;
  }
  CHECK(help.find("files:") == std::string::npos);
}

}  // namespace
}  // namespace neap::apps
