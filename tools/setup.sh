# What `try` and `check` share: installing packages, building, and Python environments. Sourced,
# not run.
#
# Everything that Fumehood or its tests need on a machine is named here, so that a clean clone and
# one command are enough. Each step looks first and does nothing when there is nothing to do.

BUILD_PACKAGES="gcc libc6-dev meson ninja-build pkg-config libuv1-dev libjson-c-dev libssl-dev
	libedit-dev zlib1g-dev libwslay-dev libhiredis-dev libcurl4-openssl-dev
	python3 python3-venv python3-dev"
# The daemon's HTTP parser: Debian 12 has its sources with node-llhttp, later ones a library.
case $(. /etc/os-release 2>/dev/null && echo "${VERSION_ID:-}") in
12) BUILD_PACKAGES="$BUILD_PACKAGES node-llhttp" ;;
*) BUILD_PACKAGES="$BUILD_PACKAGES libllhttp-dev" ;;
esac
# For fumehood-sixel, which is built where they are there. The tests want it.
OPTIONAL_PACKAGES="libsixel-dev libpng-dev"

say() {
	printf '\033[1m%s\033[0m\n' "$*" >&2
}

fail() {
	printf '%s\n' "$*" >&2
	exit 125
}

# Names those of the given Debian packages that are not installed.
missing_packages() {
	for package in "$@"; do
		case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
		"install ok installed") ;;
		*) printf '%s ' "$package" ;;
		esac
	done
}

# install_packages REASON PACKAGE...: with apt on Debian 12 and 13; elsewhere says what is needed.
install_packages() {
	reason=$1
	shift
	id= version=
	if [ -r /etc/os-release ]; then
		id=$(. /etc/os-release && echo "$ID")
		version=$(. /etc/os-release && echo "${VERSION_ID:-}")
	fi
	if [ "$id" != debian ] || { [ "$version" != 12 ] && [ "$version" != 13 ]; }; then
		command -v meson >/dev/null &&
			pkg-config --exists libuv json-c libcrypto libedit zlib 2>/dev/null &&
			return 0
		fail "This script installs packages on Debian 12 and 13 only. Here, install these:
$(echo $*)
and run it again."
	fi
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	sudo=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null ||
			fail "These packages are needed $reason, and there is no sudo:
$missing
Install them as root: apt-get install $missing"
		sudo=sudo
	fi
	say "Installing with ${sudo:+sudo }apt-get, $reason: $missing"
	# shellcheck disable=SC2086
	$sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq \
		--no-install-recommends $missing >/dev/null || fail "apt-get failed; see above"
}

# build FOLDER [meson option...]: configures once, compiles what has changed.
build() {
	folder=$1
	shift
	if [ ! -f "$folder/build.ninja" ]; then
		say "Configuring $folder"
		rm -rf "$folder"
		if ! meson setup "$folder" "$@" >"$folder.log" 2>&1; then
			cat "$folder.log" >&2
			fail "meson setup failed"
		fi
		mv "$folder.log" "$folder/setup.log"
	fi
	if ! ninja -C "$folder" >"$folder/compile.log" 2>&1; then
		cat "$folder/compile.log" >&2
		fail "the build failed"
	fi
}

# environment FOLDER PACKAGE...: a venv with these packages. Debian's own Python is taken when it
# is there:
# one that lies in someone's home is not readable for others.
environment() {
	folder=$1
	shift
	python=/usr/bin/python3
	[ -x "$python" ] || python=$(command -v python3) || fail "there is no python3"
	stamp=$("$python" --version; echo "$*")
	[ -x "$folder/bin/python" ] &&
		[ "$(cat "$folder/.packages" 2>/dev/null)" = "$stamp" ] && return 0
	say "Preparing a Python environment in $folder: $*"
	mkdir -p "$(dirname "$folder")"
	rm -rf "$folder"
	"$python" -m venv "$folder" || fail "python3 -m venv failed"
	"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" ||
		fail "pip failed"
	printf '%s' "$stamp" >"$folder/.packages"
}

# The environment that sessions use when none is chosen (base/paths.c: paths_data).
default_environment() {
	environment "${XDG_DATA_HOME:-$HOME/.local/share}/fumehood/venv" \
		ipython numpy pandas matplotlib
}
