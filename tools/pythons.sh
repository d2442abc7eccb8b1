#!/bin/sh
# Prepares the CPythons that the tests run with: each a venv with the packages that the tests use.
# Prints a line for each: VERSION PYTHON ("3.13t": free-threaded).
#
#     tools/pythons.sh          of those that are on this machine (PATH, pyenv, uv, the cache)
#     tools/pythons.sh --get    gets 3.13t and 3.14 as well, where they are missing (minutes)
#
# All of it lies in ~/.cache/fumehood-pythons ($FUMEHOOD_PYTHONS), outside of the repository,
# because it takes minutes to make and serves every clone. A Python newer than the distribution's
# comes from Debian's packages of the suite `sid`: they are unpacked, never installed, and find
# their own libc by an absolute path that patchelf writes. A free-threaded one, which Debian does
# not package, is built from its source package. 3.14t is in neither: it is taken when someone has
# it on the machine.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/setup.sh"

CACHE=${FUMEHOOD_PYTHONS:-$HOME/.cache/fumehood-pythons}
VERSIONS="3.9 3.10 3.11 3.12 3.13 3.14 3.13t 3.14t"
PACKAGES="ipython numpy pandas matplotlib sympy rich nest_asyncio2"
SOURCE_PACKAGES="dpkg-dev gcc make libc6-dev libssl-dev libffi-dev libsqlite3-dev zlib1g-dev
	libbz2-dev liblzma-dev libreadline-dev libncurses-dev uuid-dev"
# What CPython 3.14 of sid is linked with, down to its libc.
BINARY_PACKAGES="python3.14 python3.14-minimal libpython3.14-minimal libpython3.14-stdlib libc6
	libssl3t64 libffi8 libsqlite3-0 zlib1g libexpat1 libbz2-1.0 liblzma5 libreadline8t64
	libncursesw6 libtinfo6 libuuid1 libmpdec4 libzstd1 libgcc-s1 libstdc++6"

# apt with lists of its own, of the suite sid: nothing on the machine changes.
sid() {
	APT_CONFIG=$CACHE/apt/apt.conf "$@"
}

sid_lists() {
	[ -d "$CACHE/apt/lists/partial" ] && return
	mkdir -p "$CACHE/apt/lists/partial" "$CACHE/apt/cache/archives/partial" "$CACHE/apt/parts"
	cat >"$CACHE/apt/parts/sid.sources" <<-END
		Types: deb deb-src
		URIs: http://deb.debian.org/debian
		Suites: sid
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
	cat >"$CACHE/apt/apt.conf" <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$CACHE/apt/parts";
		Dir::State::lists "$CACHE/apt/lists";
		Dir::Cache "$CACHE/apt/cache";
		Acquire::Languages "none";
		APT::Sandbox::User "root";
	END
	sid apt-get update -qq || rm -rf "$CACHE/apt/lists"
}

# Which of the versions that Debian names it still has, differs from day to day: the first that
# comes.
source_package() {
	for version in $(sid apt-cache showsrc "$1" | sed -n 's/^Version: //p'); do
		sid apt-get source -qq --download-only "$1=$version" && return
	done
	return 1
}

# get_built VERSION: free-threaded, from Debian's source package.
get_built() {
	prefix=$CACHE/$1
	# shellcheck disable=SC2086
	install_packages "to build Python $1" $SOURCE_PACKAGES
	say "Building Python $1 (minutes) in $prefix"
	sid_lists
	rm -rf "$prefix.build"
	mkdir -p "$prefix.build/source"
	(
		cd "$prefix.build" && source_package "python${1%t}" &&
			tar -xf ./*.orig.tar.* -C source --strip-components=1 && cd source &&
			./configure --prefix="$prefix" --disable-gil --with-ensurepip=install &&
			nice make -j"$(nproc)" && make install DESTDIR="$prefix.build/installed" &&
			mv "$prefix.build/installed$prefix" "$prefix" # at once: whole, or not there
	) >"$prefix.log" 2>&1 && rm -rf "$prefix.build" && return
	say "Python $1 could not be built; see $prefix.log"
}

# get_unpacked VERSION: Debian's own binaries, with their own libc beside them.
get_unpacked() {
	prefix=$CACHE/$1
	install_packages "to unpack Python $1" patchelf binutils
	say "Unpacking Python $1 into $prefix"
	sid_lists
	rm -rf "$prefix" "$prefix.build"
	mkdir -p "$prefix.build/prefix/bin" "$prefix.build/prefix/lib"
	(
		# shellcheck disable=SC2086
		cd "$prefix.build" && sid apt-get download -qq $BINARY_PACKAGES || exit
		for package in ./*.deb; do
			dpkg-deb -x "$package" . || exit
		done
		cp -a usr/lib/python* usr/lib/*-linux-gnu*/*.so* prefix/lib/ &&
			cp "usr/bin/python$1" prefix/bin/ &&
			ln -s "python$1" prefix/bin/python3 || exit
		loader=$(cd prefix/lib && echo ld-linux-*.so.*)
		patchelf --set-interpreter "$prefix/lib/$loader" --force-rpath \
			--set-rpath "$prefix/lib" "prefix/bin/python$1" || exit
		# Debian's mark that pip must not write here.
		rm -f "prefix/lib/python$1/EXTERNALLY-MANAGED"
		mv prefix "$prefix" && "$prefix/bin/python3" -c "import ssl, sqlite3"
	) >"$prefix.log" 2>&1 && rm -rf "$prefix.build" && return
	rm -rf "$prefix"
	say "Python $1 could not be unpacked; see $prefix.log"
}

# Whether a Python works and is of this version: a shim of pyenv exists for versions that are off.
is_version() {
	[ "$("$2" -I -c 'import sys
print("%d.%d" % sys.version_info[:2] + "t" * ("t" in sys.abiflags))' 2>/dev/null)" = "$1" ]
}

# find_python VERSION: prints the first that works.
find_python() {
	for path in "$CACHE/$1/bin/python$1" "/usr/bin/python$1" \
		"${PYENV_ROOT:-$HOME/.pyenv}/versions/${1%t}".*/bin/python"$1" \
		"$HOME/.local/share/uv/python/cpython-${1%t}".*/bin/python"$1" \
		"$(command -v "python$1")"; do
		[ -x "$path" ] && is_version "$1" "$path" && echo "$path" && return
	done
	return 1
}

# environment_of VERSION PYTHON: prints its venv with the packages; what has no wheel is left out.
environment_of() {
	folder=$CACHE/env-$1
	stamp="$2 $PACKAGES"
	if [ "$(cat "$folder/.packages" 2>/dev/null)" != "$stamp" ]; then
		say "Preparing an environment of Python $1 in $folder"
		rm -rf "$folder"
		"$UV" venv --quiet --python "$2" "$folder" || return
		for package in $PACKAGES; do
			"$UV" pip install --quiet --python "$folder/bin/python" \
				--only-binary :all: "$package" 2>"$folder/.log" ||
				say "Python $1 goes without $package"
		done
		printf '%s' "$stamp" >"$folder/.packages"
	fi
	echo "$folder/bin/python"
}

mkdir -p "$CACHE"
environment "$CACHE/uv" uv
UV=$CACHE/uv/bin/uv
export UV_PYTHON_DOWNLOADS=never
if [ "${1:-}" = --get ]; then
	find_python 3.14 >/dev/null || get_unpacked 3.14
	find_python 3.13t >/dev/null || get_built 3.13t
fi
for version in $VERSIONS; do
	python=$(find_python "$version") && python=$(environment_of "$version" "$python") &&
		echo "$version $python"
done
exit 0
