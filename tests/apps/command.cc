#include "tests/apps/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "absl/strings/str_split.h"
#include "neap/layers/cuda/described_catalog.h"

namespace neap::testing {
namespace {

void Redirect(const std::string& path, int to) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || dup2(file, to) < 0) _exit(127);
}

// A pseudo-terminal: `near` is a terminal to the process that has it, and what is written there is
// read from `far`.
struct Terminal {
  int far = -1;
  int near = -1;
};

std::optional<Terminal> OpenTerminal() {
  Terminal terminal = {.far = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  if (terminal.far < 0) return std::nullopt;
  if (grantpt(terminal.far) == 0 && unlockpt(terminal.far) == 0)
    terminal.near = open(ptsname(terminal.far), O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal.near >= 0) return terminal;
  close(terminal.far);
  return std::nullopt;
}

// Until nobody has the near end any more.
void CopyTerminal(int far, const std::string& path) {
  std::ofstream copy(path, std::ios::binary | std::ios::trunc);
  std::array<char, 4096> bytes = {};
  for (;;) {
    const ssize_t count = read(far, bytes.data(), bytes.size());
    if (count <= 0) break;
    copy.write(bytes.data(), count).flush();
  }
  close(far);
}

}  // namespace

bool HasTerminals() {
  const std::optional<Terminal> terminal = OpenTerminal();
  if (!terminal.has_value()) return false;
  close(terminal->near);
  close(terminal->far);
  return true;
}

std::string CommandPath() {
  if (const char* given = std::getenv("NEAP_COMMAND")) return given;
  const std::filesystem::path tests = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (tests.parent_path() / "neap").string();
}

Process Process::Start(const std::vector<std::string>& args) {
  return StartCommand(CommandPath(), args);
}

Process Process::StartCommand(const std::string& path, const std::vector<std::string>& args) {
  Process process;
  process.Launch(path, args, /*terminal=*/-1);
  return process;
}

Process Process::StartOnTerminal(const std::vector<std::string>& args, uint16_t columns) {
  const std::optional<Terminal> terminal = OpenTerminal();
  REQUIRE(terminal.has_value());
  const auto [far, near] = *terminal;
  termios raw = {};
  cfmakeraw(&raw);
  REQUIRE(tcsetattr(near, TCSANOW, &raw) == 0);
  const winsize size = {.ws_row = 25, .ws_col = columns};
  REQUIRE(ioctl(near, TIOCSWINSZ, &size) == 0);
  Process process;
  process.Launch(CommandPath(), args, near);
  close(near);
  process.copying_ =
      std::async(std::launch::async, CopyTerminal, far, process.directory_->File("err"));
  return process;
}

Process Process::StartIgnoring(int signal, const std::vector<std::string>& args) {
  Process process;
  process.Launch(CommandPath(), args, /*terminal=*/-1, signal);
  return process;
}

void Process::Launch(const std::string& path, const std::vector<std::string>& args, int terminal,
                     int ignored) {
  const std::string out = directory_->File("out");
  const std::string err = directory_->File("err");
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ != 0) return;
  for (const int stop : {SIGINT, SIGTERM}) signal(stop, stop == ignored ? SIG_IGN : SIG_DFL);
  Redirect(out, STDOUT_FILENO);
  if (terminal < 0) Redirect(err, STDERR_FILENO);
  if (terminal >= 0 && dup2(terminal, STDERR_FILENO) < 0) _exit(127);
  execv(path.c_str(), argv.data());
  _exit(127);
}

void Process::Signal(int signal) const { kill(pid_, signal); }

bool Process::Running() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

std::string Process::Output() const {
  const std::string out = directory_->File("out");
  return std::filesystem::exists(out) ? ReadText(out) : "";
}

std::string Process::Errors() const {
  const std::string err = directory_->File("err");
  return std::filesystem::exists(err) ? ReadText(err) : "";
}

void Process::AwaitErrors(const std::string& text) {
  bool running = true;
  while (running && Errors().find(text) == std::string::npos) {
    running = Running();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  INFO("stderr: ", Errors());
  CHECK(Errors().find(text) != std::string::npos);
}

Outcome Process::Wait() {
  if (!ended_) REQUIRE(waitpid(pid_, &status_, 0) == pid_);
  ended_ = true;
  if (copying_.valid()) copying_.get();
  Outcome outcome = {.out = Output(), .err = Errors()};
  if (WIFEXITED(status_)) outcome.exit_code = WEXITSTATUS(status_);
  if (WIFSIGNALED(status_)) outcome.signal = WTERMSIG(status_);
  return outcome;
}

Outcome RunNeap(const std::vector<std::string>& args) { return Process::Start(args).Wait(); }

std::vector<nlohmann::json> RunForJson(std::vector<std::string> args) {
  args.push_back("--json");
  const Outcome outcome = RunNeap(args);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  std::vector<nlohmann::json> objects;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(nlohmann::json::parse(line, nullptr, false));
    REQUIRE(objects.back().is_object());
  }
  REQUIRE(!objects.empty());
  return objects;
}

void CheckRefused(const std::vector<std::string>& args, int exit_code,
                  const std::vector<std::string>& words) {
  const Outcome outcome = RunNeap(args);
  INFO("stderr: ", outcome.err);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.err.starts_with("neap: "));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK(outcome.err.ends_with('\n'));
  for (const std::string& word : words) {
    INFO("expected: ", word);
    CHECK(outcome.err.find(word) != std::string::npos);
  }
}

bool KnowsEnginesOfH200() {
  const absl::StatusOr<std::unique_ptr<EngineCatalog>> catalog = DescribedCatalog("h200");
  return catalog.ok() && !(*catalog)->Versions().empty();
}

std::vector<std::vector<std::string>> ReadCsv(const std::string& path) {
  std::vector<std::vector<std::string>> lines;
  for (const auto line : absl::StrSplit(ReadText(path), '\n', absl::SkipEmpty()))
    lines.push_back(absl::StrSplit(line, ','));
  return lines;
}

}  // namespace neap::testing
