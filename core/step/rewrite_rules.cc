#include "neap/core/step/rewrite_rules.h"

namespace neap {

void RewriteRules::Append(const RewriteRules& rows) {
  fusions.insert(fusions.end(), rows.fusions.begin(), rows.fusions.end());
  moves.insert(moves.end(), rows.moves.begin(), rows.moves.end());
  ranks.insert(ranks.end(), rows.ranks.begin(), rows.ranks.end());
}

}  // namespace neap
