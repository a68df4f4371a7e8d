# Installing what a machine lacks; read by the scripts beside it, which set `script` to their name.
# shellcheck shell=bash

say() { printf '%s: %s\n' "$script" "$*"; }
fail() { printf '%s: %s\n' "$script" "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "'$*' must be run by root, and there is no sudo; run it by hand, then run this again"
    fi
}

updated=no
update_packages() {
    command -v apt-get >/dev/null || fail "no apt-get here; install it by hand: $*"
    if [ "$updated" = no ]; then
        say "asking the system which packages there are"
        as_root apt-get update -qq
        updated=yes
    fi
}

# install WHY PACKAGE…: the first of these packages that the system knows.
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
    fail "this system has none of the packages $*; needed: $why"
}

# need WHY CHECK PACKAGE…: install a package unless the check succeeds.
need() {
    local why=$1 check=$2
    shift 2
    "$check" && return
    install "$why" "$@"
    "$check" || fail "still missing after the installation: $why"
}
