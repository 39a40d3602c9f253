#!/usr/bin/env bash
# Makes a folder that runs on another machine with glibc and libstdc++ at least as new: the command, the tests, the benchmark of
# reading photographs (for scripts/compare_loading.py), an example that is measured, and the shared libraries they need. CUDA's libraries are not included;
# scripts/gpu_test.sh finds them on the other machine.
#   scripts/bundle.sh release build/bundle        then, on the other machine: build/bundle/run neap devices
set -euo pipefail
preset="${1:?usage: scripts/bundle.sh PRESET FOLDER}"
out="${2:?usage: scripts/bundle.sh PRESET FOLDER}"
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
case "$out" in /*) ;; *) out="$PWD/$out" ;; esac
build="$root/build/$preset"
[ -x "$build/neap" ] || { echo "bundle: build first: scripts/build.sh $preset" >&2; exit 1; }

rm -rf "$out"
mkdir -p "$out"
for program in "$build/neap" "$build"/tests/*_tests "$build/bench/image_folder_bench" "$build/examples/example_changing_graphs"; do
  [ ! -f "$program" ] || strip -o "$out/$(basename "$program")" "$program"
done

# The other machine provides libc and its parts, and the compiler's run time. Programs load the GPU's libraries there.
system='^(linux-vdso|ld-linux|libc\.|libm\.|libdl\.|librt\.|libpthread\.|libresolv\.|libutil\.|libgcc_s|libstdc\+\+)'
for program in "$out"/*; do
  LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ldd "$program"
done | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | while read -r name path; do
  if [[ "$name" =~ $system ]]; then continue; fi
  cp -L "$path" "$out/$name"
  chmod u+w "$out/$name"
  strip --strip-unneeded "$out/$name"
done

cat > "$out/run" <<'END'
#!/usr/bin/env bash
# run PROGRAM [ARGUMENT...]: a program of this folder, with the libraries beside it.
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export LD_LIBRARY_PATH="$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
program="$1"
shift
exec "$here/$program" "$@"
END
chmod +x "$out/run"

echo "bundle: $out, $(du -sm "$out" | cut -f1) MiB" >&2
