# Debian packages, by what they are for. Sourced by quickstart, test and .ci/run.
PACKAGES_BUILD="g++ cmake ninja-build ccache nlohmann-json3-dev libdnnl-dev libopenmpi-dev openmpi-bin libxxhash-dev libpcre2-dev libutf8proc-dev pkg-config"
PACKAGES_TEXT="bible-kjv bible-kjv-text"
PACKAGES_TEST="libgtest-dev libbenchmark-dev python3 python3-torch clang-format bible-kjv bible-kjv-text"
PACKAGES_FUZZ="clang libclang-rt-14-dev"

# Installs what is missing of the named packages.
install_packages() {
  local missing=""
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
  done
  [ -z "$missing" ] && return 0
  echo "Installing:$missing"
  local as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "error: installing needs root; run as root once: apt-get install$missing" >&2; return 9; }
    as_root="sudo"
  fi
  $as_root apt-get update -qq >/dev/null || { echo "error: 'apt-get update' failed; is a Debian mirror reachable?" >&2; return 9; }
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || { echo "error: could not install:$missing" >&2; return 9; }
}
