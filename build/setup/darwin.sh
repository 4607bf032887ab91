# The macOS part of build/setup.sh (sourced): the compiler and llama-server by Homebrew.
# shellcheck shell=bash

system_packages() {
	xcode-select -p >/dev/null 2>&1 ||
		die "the Command Line Tools are missing (clang, the SDK)" "remedy: xcode-select --install"
}

# browser only looks: a test needs Chromium or Chrome as a web page's home, and an app is the owner's to install.
browser() {
	local at
	for at in /Applications "$HOME/Applications"; do
		[ -e "$at/Chromium.app" ] || [ -e "$at/Google Chrome.app" ] && return
	done
	die "Chromium is missing (a test opens web pages in it)" "remedy: install Google Chrome or Chromium into /Applications"
}

llama_server() {
	local at
	for at in "${ONDOL_LLAMA_SERVER-}" "$(command -v llama-server || true)" /opt/homebrew/bin/llama-server /usr/local/bin/llama-server; do
		[ -n "$at" ] && [ -x "$at" ] && return
	done
	command -v brew >/dev/null ||
		die "llama-server is missing, and so is Homebrew" "remedy: install Homebrew (https://brew.sh), or set ONDOL_LLAMA_SERVER to a llama-server"
	say "installing llama-server: brew install llama.cpp"
	retry 3 brew install llama.cpp ||
		die "Homebrew could not install llama.cpp" "remedy: run brew install llama.cpp by hand, or set ONDOL_LLAMA_SERVER to a llama-server"
}
