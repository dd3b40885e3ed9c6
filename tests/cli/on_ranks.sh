#!/bin/sh
# on_ranks.sh N PROGRAM OPTION... - runs a test program on N ranks.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname -- "$0")/ranks_env.sh"
mpirun -n "$@"
