#!/usr/bin/env bash
# The format of all sources: clang-format's, and comments, which it leaves alone, within 100 columns.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sources() { git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' '*.cu' '*.cuh'; }

sources | xargs -0r clang-format-14 --dry-run --Werror
sources | xargs -0r awk 'length > 100 && /\/\// {
  print FILENAME ":" FNR ": a comment past 100 columns"; found = 1 } END { exit found }'
