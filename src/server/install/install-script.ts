/**
 * `/install.sh`: plain POSIX sh, for any Linux with curl or wget. It changes nothing before everything that it needs is
 * there, and runs only when it arrived in whole. Running it again updates the program and keeps the membership.
 */
import type { AgentRelease } from '../../contract/agent.ts'

/** Options of `berth agent join` that the script passes on. */
export const joinOptions = {
  withValue: [
    'name',
    'cluster',
    'region',
    'price',
    'offer',
    'network',
    'simulate-gpus',
    'nvidia-smi',
    'dir',
    'docker-socket',
    'image',
    'allow-registry',
    'registry-auth',
    'pull-stall',
    'weights-gb',
    'accel',
    'cluster-address',
  ],
  plain: ['allow-local-images', 'allow-private-registries', 'allow-unfenced', 'trusted-lan'],
} as const

/** `url`: empty if the request does not tell. */
export function renderInstallScript(options: AgentRelease & { readonly url: string }): string {
  const flags = (names: readonly string[]): string => names.map((name) => `--${name}`).join(' | ')
  return template
    .replace('@URL@', options.url)
    .replace('@BUILD@', options.build)
    .replace('@PLATFORMS@', options.platforms.join(' '))
    .replaceAll('@WITH_VALUE@', flags(joinOptions.withValue))
    .replaceAll('@PLAIN@', flags(joinOptions.plain))
}

const template = String.raw`#!/bin/sh
# Installs the berth command, and offers this machine for rent. See --help.
set -eu

url='@URL@'
build='@BUILD@'
platforms='@PLATFORMS@'

usage() {
  cat <<'END'
Usage: install.sh --token TOKEN [options]     offer this machine for rent
       install.sh --cli-only [options]        install only the berth command

  --token TOKEN   join token, from "berth supply tokens create" or the console
  --url URL       server to install from and to join
  --cli-only      install only the berth command, for customers
  --prefix DIR    folder to install into
                  (default: /opt/berth; not root: ~/.local/share/berth)
  --no-service    join, but do not start the agent as a service
  --dry-run       print what would be done
  --help          show this help

All options of "berth agent join" and "berth agent run" can be added, such as:
  --price USD     price per GPU-hour on the marketplace
  --name NAME     name of the machine
  --offer virtual-machine
END
}

say() { printf '%s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '  %s\n' "$line" >&2; done
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# URL FILE
download() {
  case $1 in https:*) protocols='=https' ;; *) protocols='=http,https' ;; esac
  if has curl; then
    curl -fsSL --proto "$protocols" --connect-timeout 30 -o "$2" "$1"
  else
    # Without a timeout: with one, the wget of busybox 1.35 crashes.
    wget -q -O "$2" "$1"
  fi || fail "Could not download $1." 'Check the address of the server and the network, then run this again.'
}

sha256() {
  if has sha256sum; then sha256sum "$1"
  elif has shasum; then shasum -a 256 "$1"
  else openssl dgst -sha256 -r "$1"
  fi | cut -d ' ' -f 1
}

has_recent_node() {
  has node && node -e '
    const [major, minor] = process.versions.node.split(".").map(Number)
    process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' 2>/dev/null
}

is_offered() {
  for one in $platforms; do [ "$one" != "$1" ] || return 0; done
  return 1
}

check_system() {
  case $(uname -s) in
    Linux) system=linux ;;
    Darwin) system=darwin ;;
    *) fail "Berth does not run on $(uname -s)." ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) system=$system-x64 ;;
    aarch64 | arm64) system=$system-arm64 ;;
    *) fail "Berth does not run on $(uname -m) processors." ;;
  esac
  if [ -z "$cli_only" ]; then
    case $system in linux-*) ;; *) fail 'Only Linux machines can be offered for rent.' 'To install the command: --cli-only' ;; esac
  fi
  has curl || has wget || fail 'This needs curl or wget.' 'Install one of them, then run this again.'
  has sha256sum || has shasum || has openssl || fail 'This needs sha256sum, shasum or openssl to verify the download.'
  for program in tar gzip cut mktemp; do
    has "$program" || fail "This needs $program." "Install it, then run this again."
  done
  if has_recent_node; then
    platform=any
  elif is_offered "$system"; then
    platform=$system
  else
    fail "This machine needs Node 20.19 or newer: the server has none for $system." \
      'Install it with your package manager, then run this again.'
  fi
}

check_options() {
  [ -n "$url" ] || fail 'The address of the server is missing.' 'Add it: --url https://berth.example.com'
  case $url in
    http://?* | https://?*) ;;
    *) fail "--url must be an http or https address, not $url." ;;
  esac
  case $prefix in
    /*) ;;
    *) fail "--prefix must be an absolute path, not $prefix." ;;
  esac
  if [ -n "$cli_only" ]; then
    [ -z "$token" ] || fail '--token and --cli-only exclude each other.'
    [ "$passed" -eq 0 ] || fail '--cli-only takes no options of "berth agent join".'
    return 0
  fi
  [ -z "$joined" ] || return 0
  [ -n "$token" ] || fail 'A machine needs a join token: --token TOKEN' \
    'Create one with "berth supply tokens create" or in the console.' 'To install only the command: --cli-only'
  [ -n "$price" ] || [ -n "$simulated" ] || [ "$offer" = virtual-machine ] ||
    fail 'A machine on the marketplace needs a price.' 'Set the price per GPU-hour: --price 1.20'
}

install_program() {
  new=$prefix/versions/$build
  mkdir -p "$prefix/versions" "$bin"
  work=$(mktemp -d "$prefix/versions/new.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  say "Downloading Berth $build for $system from $url"
  download "$url/agent/$build/$platform.tar.gz.sha256" "$work/sha256"
  download "$url/agent/$build/$platform.tar.gz" "$work/berth.tar.gz"
  read -r expected <"$work/sha256"
  actual=$(sha256 "$work/berth.tar.gz")
  [ "$actual" = "$expected" ] || fail "The checksum of the download is wrong: $actual instead of $expected." \
    'Nothing was installed. Run this again; if it stays wrong, tell the operator of the server.'
  mkdir "$work/berth"
  gzip -dc "$work/berth.tar.gz" | tar -xf - -C "$work/berth"
  # A service may have another PATH.
  if [ "$platform" = any ]; then
    mkdir -p "$work/berth/node/bin"
    ln -s "$(command -v node)" "$work/berth/node/bin/node"
  fi
  "$work/berth/bin/berth" --version >/dev/null 2>&1 || fail 'The Node of the server does not run on this machine.' \
    'Install Node 20.19 or newer with your package manager, then run this again.'
  rm -rf "$new"
  mv "$work/berth" "$new"
  ln -s "versions/$build" "$work/current"
  mv -f "$work/current" "$prefix/current.new"
  # Plain mv would move it into the folder that the old link leads to.
  mv -T "$prefix/current.new" "$prefix/current" 2>/dev/null || {
    rm -f "$prefix/current"
    mv "$prefix/current.new" "$prefix/current"
  }
  ln -sfn "$prefix/current/bin/berth" "$bin/berth"
  say "Installed $bin/berth"
  case :$PATH: in *:"$bin":*) ;; *) say "Add $bin to your PATH to run it as berth." ;; esac
}

main() {
  token='' cli_only='' dry_run='' no_service='' price='' simulated='' offer='' passed=0
  if [ "$(id -u)" -eq 0 ]; then
    prefix=/opt/berth bin=/usr/local/bin folder=/var/lib/berth-agent
  else
    prefix=$HOME/.local/share/berth bin=$HOME/.local/bin folder=$HOME/.berth-agent
  fi
  # Goes once through the arguments; those of "berth agent join" are put back at the end.
  left=$#
  while [ "$left" -gt 0 ]; do
    name=$1 value='' given=''
    shift
    left=$((left - 1))
    case $name in
      --*=*)
        value=${'$'}{name#*=}
        name=${'$'}{name%%=*}
        given=1
        ;;
    esac
    case $name in
      --token | --url | --prefix | @WITH_VALUE@)
        if [ -z "$given" ]; then
          [ "$left" -gt 0 ] || fail "$name needs a value."
          value=$1
          shift
          left=$((left - 1))
        fi
        ;;
    esac
    case $name in
      --token) token=$value ;;
      --url) url=${'$'}{value%/} ;;
      --prefix) prefix=$value bin=$value/bin ;;
      --cli-only) cli_only=1 ;;
      --no-service) no_service=1 ;;
      --dry-run) dry_run=1 ;;
      -h | --help)
        usage
        exit 0
        ;;
      @WITH_VALUE@)
        case $name in
          --price) price=$value ;;
          --simulate-gpus) simulated=$value ;;
          --offer) offer=$value ;;
          --dir) folder=$value ;;
        esac
        passed=$((passed + 1))
        set -- "$@" "$name" "$value"
        ;;
      @PLAIN@)
        passed=$((passed + 1))
        set -- "$@" "$name"
        ;;
      *) fail "Unknown option $name." 'See --help.' ;;
    esac
  done
  joined=''
  [ ! -f "$folder/agent.json" ] || joined=1
  check_options
  check_system

  if [ -n "$dry_run" ]; then
    say "Would install Berth $build for $system from $url into $prefix"
    if [ "$platform" = any ]; then say "with the Node of this machine, $(command -v node)"; else say 'with its own Node'; fi
    say "and link it as $bin/berth"
    if [ -n "$cli_only" ]; then exit 0; fi
    if [ -n "$joined" ]; then say 'This machine has joined a server already.'; else say "Would join $url: berth agent join $*"; fi
    if [ -z "$no_service" ]; then say 'Would start the agent: berth agent install'; fi
    exit 0
  fi

  install_program
  if [ -n "$cli_only" ]; then
    say "To log in: berth login --server $url"
    exit 0
  fi
  if [ -n "$joined" ]; then
    say 'This machine has joined a server already; its membership was kept.'
  else
    "$prefix/current/bin/berth" agent join --check --server "$url" --token "$token" "$@" ||
      fail 'Berth is installed, but this machine has not joined.' 'Correct the problem above, then run this again.'
  fi
  if [ -n "$no_service" ]; then
    say "To start the agent: $prefix/current/bin/berth agent run --dir $folder"
  else
    "$prefix/current/bin/berth" agent install --dir "$folder"
  fi
}

main "$@"
`
