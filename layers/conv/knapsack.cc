#include "neap/layers/conv/knapsack.h"

#include <glpk.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <system_error>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace neap {
namespace {

// The program in GLPK's form, with arrays that start at 1. Column 1 is the cost of the unused
// capacity, followed by the items, class by class. Row 1 is the capacity, followed by the classes.
struct Search {
  explicit Search(const ChoiceProgram& p);

  const ChoiceProgram& program;
  std::vector<int> rows = {0}, columns = {0};
  std::vector<double> entries = {0};
  std::vector<double> start = {0, 0};  // by column
  ChoiceSolution best;
  double best_cost;
  std::jmp_buf failed = {};
};

int64_t UnusedBytes(const ChoiceProgram& program, const ChoiceCounts& counts) {
  int64_t unused_bytes = program.capacity_bytes;
  for (size_t k = 0; k < counts.size(); ++k) {
    for (size_t c = 0; c < counts[k].size(); ++c)
      unused_bytes -= program.classes[k].items[c].bytes * counts[k][c];
  }
  return unused_bytes;
}

Search::Search(const ChoiceProgram& p)
    : program(p), best({.counts = p.start}), best_cost(p.start_cost) {
  const auto enter = [this](int row, int column, double value) {
    rows.push_back(row);
    columns.push_back(column);
    entries.push_back(value);
  };
  enter(1, 1, 1);
  start[1] = program.slack_cost * static_cast<double>(UnusedBytes(program, program.start));
  int row = 1;
  int column = 1;
  for (size_t k = 0; k < program.classes.size(); ++k) {
    ++row;
    for (size_t c = 0; c < program.classes[k].items.size(); ++c) {
      ++column;
      enter(1, column, program.slack_cost * static_cast<double>(program.classes[k].items[c].bytes));
      enter(row, column, 1);
      start.push_back(program.start[k][c]);
    }
  }
}

// From here to SolveWithGlpk(), longjmp may leave a function, so none has locals with a destructor.

// The most members that may take the item before these alone cost more than the start.
double MostMembers(const Search& search, const ChoiceClass& choices, const ChoiceItem& item) {
  constexpr double kRounding = 1e-6;
  const double members = choices.members;
  if (item.cost * members <= search.program.start_cost) return members;
  return std::floor(search.program.start_cost / item.cost + kRounding);
}

void AddItems(glp_prob* problem, const Search& search) {
  int row = 1;
  int column = 1;
  for (const ChoiceClass& choices : search.program.classes) {
    ++row;
    glp_set_row_bnds(problem, row, GLP_FX, choices.members, choices.members);
    for (const ChoiceItem& item : choices.items) {
      ++column;
      const double most = MostMembers(search, choices, item);
      glp_set_col_kind(problem, column, GLP_IV);
      glp_set_col_bnds(problem, column, most > 0 ? GLP_DB : GLP_FX, 0, most);
      glp_set_obj_coef(problem, column, item.cost);
    }
  }
}

glp_prob* Build(const Search& search) {
  const ChoiceProgram& program = search.program;
  glp_prob* const problem = glp_create_prob();
  const double capacity = program.slack_cost * static_cast<double>(program.capacity_bytes);
  glp_add_rows(problem, 1 + static_cast<int>(program.classes.size()));
  glp_add_cols(problem, static_cast<int>(search.start.size()) - 1);
  glp_set_row_bnds(problem, 1, GLP_FX, capacity, capacity);
  glp_set_col_bnds(problem, 1, GLP_DB, 0, program.start_cost);
  glp_set_obj_coef(problem, 1, 1);
  AddItems(problem, search);
  glp_load_matrix(problem, static_cast<int>(search.rows.size()) - 1, search.rows.data(),
                  search.columns.data(), search.entries.data());
  return problem;
}

// Rejects solutions that exceed the capacity by any byte; GLPK compares bytes with a tolerance.
void TakeSolution(glp_prob* problem, Search& search) {
  const ChoiceProgram& program = search.program;
  int64_t unused_bytes = program.capacity_bytes;
  double cost = 0;
  int column = 1;
  for (const ChoiceClass& choices : program.classes) {
    for (const ChoiceItem& item : choices.items) {
      const double count = std::round(glp_mip_col_val(problem, ++column));
      unused_bytes -= item.bytes * static_cast<int64_t>(count);
      cost += item.cost * count;
    }
  }
  cost += program.slack_cost * static_cast<double>(unused_bytes);
  if (unused_bytes < 0 || cost >= search.best_cost) return;
  search.best_cost = cost;
  column = 1;
  for (std::vector<int>& counts : search.best.counts) {
    for (int& count : counts)
      count = static_cast<int>(std::lround(glp_mip_col_val(problem, ++column)));
  }
}

void Follow(glp_tree* tree, void* info) {
  Search& search = *static_cast<Search*>(info);
  if (glp_ios_reason(tree) == GLP_IHEUR) glp_ios_heur_sol(tree, search.start.data());
  if (glp_ios_reason(tree) == GLP_IBINGO) TakeSolution(glp_ios_get_prob(tree), search);
  const int node = glp_ios_best_node(tree);
  if (node == 0) return;
  search.best.cost_bound = std::max(search.best.cost_bound, glp_ios_node_bound(tree, node));
  if (search.best_cost - search.best.cost_bound <= search.program.tolerance)
    glp_ios_terminate(tree);
}

// What remains of the time limit since `begin`, at least 0, because GLPK rejects negative limits.
int LeftMs(const Search& search, double begin) {
  const double left_seconds = search.program.time_limit_seconds - glp_difftime(glp_time(), begin);
  return static_cast<int>(std::clamp(left_seconds * 1000, 0.0, double{INT_MAX}));
}

void BranchAndBound(glp_prob* problem, Search& search) {
  const double begin = glp_time();
  glp_smcp relaxed;
  glp_init_smcp(&relaxed);
  relaxed.msg_lev = GLP_MSG_OFF;
  relaxed.tm_lim = LeftMs(search, begin);
  if (glp_simplex(problem, &relaxed) != 0 || glp_get_status(problem) != GLP_OPT) return;
  glp_iocp integer;
  glp_init_iocp(&integer);
  integer.msg_lev = GLP_MSG_OFF;
  integer.tm_lim = LeftMs(search, begin);
  integer.br_tech = GLP_BR_MFV;  // by far the quickest here: bench/workspace_division_bench.cc
  integer.cb_func = Follow;
  integer.cb_info = &search;
  if (glp_intopt(problem, &integer) == 0 && glp_mip_status(problem) == GLP_OPT)
    search.best.cost_bound = std::max(search.best.cost_bound, glp_mip_obj_val(problem));
}

int PrintNothing(void*, const char*) { return 1; }

// Replaces GLPK's default reaction to an error, which is abort().
void Escape(void* search) { std::longjmp(static_cast<Search*>(search)->failed, 1); }

void SolveWithGlpk(Search* search) {
  if (glp_init_env() != 0) return;
  glp_term_hook(PrintNothing, nullptr);
  glp_error_hook(Escape, search);
  if (setjmp(search->failed) == 0) BranchAndBound(Build(*search), *search);
  glp_free_env();  // also frees the problem
}

}  // namespace

absl::StatusOr<ChoiceSolution> Solve(const ChoiceProgram& program) {
  Search search(program);
  try {
    std::thread(SolveWithGlpk, &search).join();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread to divide the workspace with GLPK: ", error.what()));
  }
  search.best.cost_bound = std::min(search.best.cost_bound, search.best_cost);
  return search.best;
}

}  // namespace neap
