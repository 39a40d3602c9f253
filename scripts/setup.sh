#!/usr/bin/env bash
# Installs neap's build dependencies on Debian or Ubuntu; fast if all are installed. Packages come from apt-get; if there is a
# GPU but no CUDA toolkit, the toolkit comes from PyPI. Options:
#   --build-tests   also the dependencies of tests and benchmarks
#   --tests         the same, and a browser for the test of neap plan --report
#   --python        also what pip needs to build the Python package
#   --packages      also what cpack needs to make Debian packages
#   --lint          also clang-format, clang-tidy and Python, which .ci/run uses
#   --sanitizers    also Clang, which compiles the preset asan-ubsan, and its symbolizer
#   --pypi-cuda     always install CUDA from PyPI, in build/deps/cuda; builds then use it
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

# ocl-icd-opencl-dev: the CMake files of libdnnl-dev ask for OpenCL but the package does not depend on it.
# libjpeg-dev is libjpeg-turbo: libjpeg62-turbo-dev on Debian, libjpeg-turbo8-dev on Ubuntu.
packages=(g++ cmake make ninja-build ccache libabsl-dev libboost-dev libdnnl-dev ocl-icd-opencl-dev
          nlohmann-json3-dev libsqlite3-dev zlib1g-dev ca-certificates
          libopenmpi-dev openmpi-bin libjpeg-dev libpng-dev libnifti2-dev
          libprotobuf-dev protobuf-compiler)
test_packages=(doctest-dev libbenchmark-dev python3 pkg-config dpkg-dev file)
python_packages=(python3 python3-dev python3-pip python3-venv)
debian_packages=(dpkg-dev file)
lint_packages=(clang-format-14 clang-tidy-14 python3)
sanitizer_packages=(clang-14 libclang-rt-14-dev llvm-14)
cudnn_frontend=nvidia-cudnn-frontend==1.32.0
cuda_wheels=(nvidia-cuda-{nvcc,runtime,cccl,crt,nvrtc}"==13.0.*" "nvidia-nvvm==13.0.*" "nvidia-cublas==13.0.*"
             nvidia-cudnn-cu13==9.19.0.56 "nvidia-nccl-cu13==2.28.*")

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

# What to do if packages cannot be installed.
without_packages='or without them: cmake --preset release -DNEAP_FETCH=ON downloads the libraries among them;
setup: -DCMAKE_PREFIX_PATH=FOLDER takes those that are installed in FOLDER'

# True if the package is installed, or its program is available otherwise.
is_there() {
  [[ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" != 'install ok installed' ]] || return 0
  case "$1" in
    ninja-build) command -v ninja ;;
    protobuf-compiler) command -v protoc ;;
    python3-pip) python3 -m pip --version ;;
    python3-venv) python3 -c 'import ensurepip, venv' ;;
    python3-dev) python3 -c 'import sysconfig; open(sysconfig.get_path("include") + "/Python.h")' ;;
    lib* | *-dev | ca-certificates) false ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}

# Installs the missing ones of the named packages.
install_packages() {
  local missing=() package sudo=()
  command -v dpkg-query >/dev/null ||
    fail "this is neither Debian nor Ubuntu; please install what they call: $*
setup: $without_packages"
  for package in "$@"; do
    [[ " ${missing[*]} " == *" $package "* ]] || is_there "$package" || missing+=("$package")
  done
  if [ "${#missing[@]}" -eq 0 ]; then return; fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "missing: ${missing[*]}
setup: there is neither root nor sudo to install that; as root, run: apt-get install ${missing[*]}
setup: $without_packages"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq </dev/null
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

# pip_install FOLDER REQUIREMENT...: installs Python packages in a folder of their own, without changing the system.
pip_install() {
  local folder="$1"
  shift
  python3 -m pip --version >/dev/null 2>&1 || install_packages python3 python3-pip
  PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 \
    python3 -m pip install --quiet --no-deps --target "$folder" "$@" </dev/null
}

# Older distributions have an older CMake than neap needs; PyPI has a newer one.
need_cmake() {
  local version
  version="$(cmake --version | sed -n '1s/.* //p')"
  if [ "$(printf '%s\n' 3.25 "$version" | sort -V | head -1)" = 3.25 ]; then return; fi
  say "CMake $version is too old; taking a newer one from PyPI"
  pip_install "$deps/tools" 'cmake>=3.25,<4'
}

need_cudnn_frontend() {
  if [ -e "$deps/cudnn-frontend/include/cudnn_frontend.h" ]; then return; fi
  say "taking the headers of $cudnn_frontend from PyPI"
  rm -rf "$deps/download"
  pip_install "$deps/download" "$cudnn_frontend"
  mkdir -p "$deps/cudnn-frontend"
  cp -r "$deps/download/include" "$deps/cudnn-frontend/"
  rm -rf "$deps/download"
}

has_browser() {
  command -v chromium >/dev/null || command -v google-chrome >/dev/null
}

# Ubuntu's package is a snap, which the test cannot use; it is then skipped unless another browser is installed.
want_browser() {
  if has_browser; then return; fi
  if grep -qx 'ID=debian' /etc/os-release; then
    say "a browser, chromium, will be installed for the test that looks at the page of neap plan --report (some 400 MB)"
    packages+=(chromium)
  else
    say "no chromium or google-chrome; the test that looks at the page of neap plan --report will be skipped"
  fi
}

# The wheels contain nvidia/cu13/{bin,include,lib,nvvm} and nvidia/{cudnn,nccl}/{include,lib}, which together form a toolkit.
need_pypi_cuda() {
  if [ -x "$deps/cuda/bin/nvcc" ]; then return; fi
  say "taking a CUDA toolkit and cuDNN from PyPI (about 1.4 GB; this takes minutes)"
  rm -rf "$deps/download" "$deps/cuda"
  pip_install "$deps/download" "${cuda_wheels[@]}"
  local toolkit="$deps/download/nvidia/cu13" package library
  for package in cudnn nccl; do
    cp -r "$deps/download/nvidia/$package/include/." "$toolkit/include/"
    mv "$deps/download/nvidia/$package/lib/"*.so* "$toolkit/lib/"
  done
  ln -s lib "$toolkit/lib64"
  for library in "$toolkit/lib/"*.so.*; do  # the linker looks for names without a version
    ln -sfn "$(basename "$library")" "${library%%.so.*}.so"
  done
  chmod +x "$toolkit/bin/"* "$toolkit/nvvm/bin/"*
  mv "$toolkit" "$deps/cuda"
  rm -rf "$deps/download"
}

pypi_cuda=no
for option in "$@"; do
  case "$option" in
    --pypi-cuda) pypi_cuda=yes ;;
    --build-tests) packages+=("${test_packages[@]}") ;;
    --tests) packages+=("${test_packages[@]}"); want_browser ;;
    --python) packages+=("${python_packages[@]}") ;;
    --packages) packages+=("${debian_packages[@]}") ;;
    --lint) packages+=("${lint_packages[@]}") ;;
    --sanitizers) packages+=("${sanitizer_packages[@]}") ;;
    *) fail "unknown option $option" ;;
  esac
done

mkdir -p "$deps"
if has_gpu && ! has_cuda_toolkit; then pypi_cuda=yes; fi
if [ "$pypi_cuda" = yes ] && [ ! -x "$deps/cuda/bin/nvcc" ]; then packages+=(python3 python3-pip); fi
install_packages "${packages[@]}"
need_cmake
if [ "$pypi_cuda" = yes ]; then need_pypi_cuda; fi
if has_gpu || has_cuda_toolkit || [ -x "$deps/cuda/bin/nvcc" ]; then need_cudnn_frontend; fi
