# Installs missing system packages. Sourced by the scripts beside it, which set `script` to their name.
# shellcheck shell=bash

say() { printf '%s: %s\n' "$script" "$*"; }
fail() { printf '%s: %s\n' "$script" "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "'$*' needs root, and there is no sudo; run it yourself, then run this script again"
    fi
}

updated=no
update_packages() {
    command -v apt-get >/dev/null || fail "there is no apt-get; install one of these packages yourself: $*"
    if [ "$updated" = no ]; then
        say "updating the package list"
        as_root apt-get update -qq
        updated=yes
    fi
}

# install WHY PACKAGE…: install the first of these packages that the system offers.
install() {
    local why=$1 package
    shift
    update_packages "$@"
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            say "installing $package: $why"
            as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -qq -y --no-install-recommends "$package" >/dev/null
            return
        fi
    done
    fail "none of these packages is available: $*; needed because $why"
}

# need WHY CHECK PACKAGE…: install a package unless the check succeeds.
need() {
    local why=$1 check=$2
    shift 2
    "$check" && return
    install "$why" "$@"
    "$check" || fail "still missing after the installation: $why"
}
