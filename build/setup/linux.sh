# The Debian part of build/setup.sh (sourced): system packages by apt, and a private llama-server.
#
# Debian carries llama-server in unstable only. It is fetched with private apt lists and caches, unpacked with
# its own libc and loader into build/deps/llama, and never installed: the machine's apt is not touched.
# shellcheck shell=bash

llama=$deps/llama

system_packages() {
	command -v dpkg-query >/dev/null || {
		say "not a Debian system: gcc, pkg-config and sqlite3.h are taken as given"
		return 0
	}
	local package missing=()
	for package in gcc libc6-dev libsqlite3-dev pkg-config ca-certificates; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
	done
	[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
}

install_packages() {
	say "installing by apt: $*"
	retry 4 as_root apt-get -qq -o Acquire::Retries=3 update &&
		retry 4 as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 --no-install-recommends install "$@" ||
		die "apt could not install: $*" "remedy: apt-get update && apt-get install $*, as root; then run make setup again"
}

# browser installs Chromium, which a test needs as a web page's home. Any other one of its family serves as well.
browser() {
	local name
	for name in chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" >/dev/null && return
	done
	command -v dpkg-query >/dev/null ||
		die "Chromium is missing" "remedy: install it as this system does and put chromium on PATH, then run make setup again"
	install_packages chromium
}

llama_server() {
	local cpu
	cpu=$(cpu_flags)
	if [ "$(cat "$llama/cpu" 2>/dev/null)" = "$cpu" ] && cmp -s build/setup/llama-launcher.sh "$llama/llama-server"; then
		return
	fi
	if [ ! -d "$llama/tree" ]; then
		if [ -n "${ONDOL_LLAMA_SERVER-}" ] || command -v llama-server >/dev/null; then
			return
		fi
		fetch_llama
	fi
	install -m 755 build/setup/llama-launcher.sh "$llama/llama-server"
	choose_backend
	printf '%s' "$cpu" >"$llama/cpu"
	say "llama-server: $("$llama/llama-server" --version 2>&1 | head -n 1)"
}

# cpu_flags is a short fingerprint of what this CPU can do: another CPU chooses its backend anew.
cpu_flags() {
	grep -m 1 -E '^(flags|Features)' /proc/cpuinfo | cksum | cut -d' ' -f1
}

# mirrors prints the base addresses of this machine's own Debian mirrors, as its apt configuration has them
# (one-line or deb822), those of the running release first. Archives of security updates carry no unstable.
mirrors() {
	local release
	release=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME-}")
	apt-get --print-uris update 2>/dev/null |
		sed -n "s|^'\([^']*\)/dists/\([^/']*\)/InRelease'.*|\2 \1|p" |
		grep -v -- -security |
		awk -v release="$release" '$1 == release { print "0 " $2; next } { print "1 " $2 }' |
		sort -s -k 1,1 | awk '!seen[$2]++ { print $2 }'
}

fetch_llama() {
	local remedy="remedy: install llama.cpp's llama-server yourself and set ONDOL_LLAMA_SERVER to its path, then run make setup again"
	command -v apt-get >/dev/null && command -v dpkg >/dev/null ||
		die "llama-server is missing, and this is not a Debian system" "$remedy"
	local mirror found=no
	for mirror in $(mirrors); do
		if fetch_from "$mirror"; then
			found=yes
			break
		fi
	done
	rm -rf "$deps/apt"
	[ $found = yes ] ||
		die "llama-server (llama.cpp-tools in Debian unstable) could not be fetched from this machine's apt mirrors" \
			"check the network and /etc/apt/sources.list.d, or" "$remedy"
}

# fetch_from MIRROR leaves the unpacked packages in build/deps/llama/tree, whole or not at all. The signature of the
# package list is checked; its age is not, so that a mirror that lags or keeps a snapshot serves as well.
fetch_from() {
	local apt=$deps/apt
	rm -rf "$apt"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/debs" "$apt/tree"
	cat >"$apt/unstable.sources" <<-END
		Types: deb
		URIs: $1
		Suites: unstable
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
	local opts=(-qq -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache"
		-o "Dir::Etc::SourceList=$apt/unstable.sources" -o Dir::Etc::SourceParts=/dev/null
		-o Dir::Etc::PreferencesParts=/dev/null -o Dir::Etc::Preferences=/dev/null
		-o Acquire::Check-Valid-Until=false
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
		-o Acquire::Retries=3 -o APT::Sandbox::User= -o Debug::NoLocking=1
		-o APT::Update::Pre-Invoke::= -o APT::Update::Post-Invoke::= -o APT::Update::Post-Invoke-Success::=)
	say "reading Debian unstable's package list for llama-server (private, into build/deps/apt)"
	retry 3 apt-get "${opts[@]}" update || return 1
	local packages
	packages=$(apt-cache "${opts[@]}" depends --recurse --important libllama0 libggml0 | grep -E '^(lib|zlib|openssl)' | sort -u)
	[ -n "$packages" ] || return 1
	say "fetching llama.cpp-tools and what it runs on:" $packages
	(cd "$apt/debs" && retry 4 apt-get "${opts[@]}" download llama.cpp-tools $packages) || return 1
	local deb
	for deb in "$apt"/debs/*.deb; do
		dpkg -x "$deb" "$apt/tree" || return 1
	done
	rm -rf "$apt/tree/usr/share" "$apt/tree/etc" "$apt/tree/usr/lib"/*/gconv "$llama"
	mkdir -p "$llama"
	(cd "$apt/debs" && printf '%s\n' *.deb) >"$llama/VERSIONS"
	mv "$apt/tree" "$llama/tree"
}

# choose_backend records the best CPU backend that this CPU runs. ggml asks the backend itself (it answers from
# cpuid) and says "no backends are loaded" when the answer is no; the model named here does not exist, so that
# a start takes milliseconds.
choose_backend() {
	local dir name
	dir=$(echo "$llama"/tree/usr/lib/*/ggml/backends0)
	for name in $(backends_best_first "$dir"); do
		[ -f "$dir/$name" ] || continue
		local out status=0
		out=$(GGML_BACKEND_PATH=$dir/$name "$llama/llama-server" -m "$llama/none.gguf" --host "$llama/probe.sock" 2>&1) || status=$?
		rm -f "$llama/probe.sock"
		case "$out" in *"no backends are loaded"* | *"failed to load $dir"*) continue ;; esac
		case "$out" in *none.gguf*) ;; *) continue ;; esac
		[ "$status" -lt 128 ] || continue
		printf '%s' "$name" >"$llama/backend"
		say "CPU backend: $name"
		return
	done
	die "no CPU backend of llama-server runs on this machine" \
		"remedy: build llama.cpp for it and set ONDOL_LLAMA_SERVER to its llama-server"
}

# backends_best_first DIR: x86 by what the newer ones add, arm by version; what is unknown comes last.
backends_best_first() {
	local known="sapphirerapids zen4 cooperlake icelake cascadelake cannonlake skylakex alderlake haswell piledriver ivybridge sandybridge sse42 x64"
	local name
	for name in $known; do
		printf 'libggml-cpu-%s.so\n' "$name"
	done
	(cd "$1" && printf '%s\n' libggml-cpu*.so) | sort -rV
}
