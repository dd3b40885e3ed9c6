# lib.sh - shared by tools/demo and tools/test: find the root, install what is missing, build. Sourced, POSIX sh.
set -eu
root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
cd "$root"

# Debian packages: what the build needs, then what makes it whole. oneDNN's CMake package looks for OpenCL, which Debian only
# recommends with it: without that, oneDNN would not be found.
packages="gcc g++ libc6-dev git cmake ninja-build pkg-config libyaml-dev libpng-dev libarchive-dev libcjson-dev libxxhash-dev libjpeg-dev libwebp-dev
libfreetype-dev libhdf5-dev libsndfile1-dev libopenblas-dev libdnnl-dev ocl-icd-opencl-dev libcmocka-dev fonts-noto-color-emoji libopenmpi-dev openmpi-bin dpkg-dev file"

# Only `tools/test --all`: a Slurm for the test that runs examples/slurm.
slurm_packages="slurm-wlm munge"

say() { printf '%s\n' "$*" >&2; }

missing_packages() {
    for p in $packages; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
    done
}

# Installs with apt when it may; else prints the exact line and stops. --no-install only checks.
install_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "Not a Debian system: install the equivalents of: $(echo $packages)"
        return 0
    fi
    need=$(missing_packages)
    [ -n "$need" ] || return 0
    line="apt-get install -y --no-install-recommends $need"
    if [ "${no_install:-}" ]; then
        say "missing packages (run: $line): $need"
        return 0
    fi
    if [ "$(id -u)" = 0 ]; then
        sudo=
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo="sudo -n"
    else
        say "missing packages. Run this line, then this program again:"
        say "    sudo $line"
        exit 3
    fi
    say "installing: $need"
    $sudo apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $sudo $line >&2
}

build() {   # what the release preset builds, by a CMake older than presets as well
    cmake -S . -B build -G Ninja >&2
    cmake --build build >&2
}
