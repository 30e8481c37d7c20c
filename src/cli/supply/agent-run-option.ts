/** Options of `berth agent run`: how tenants are run. They are saved, as `runSettings`. */
import path from 'node:path'
import { InvalidArgumentError } from 'commander'
import { MAX_ALLOWED_REGISTRIES, runSettings, type RunSettings } from '../../agent/identity.ts'
import { parseNumber, parseWhole } from '../kit/flag.ts'
import type { Options } from '../kit/row-type.ts'

const MAX_STALL_SECONDS = 3_600
const MAX_WEIGHTS_GB = 1_000_000

export const runOptions: Options = {
  '--docker-socket <file>': { help: 'socket of Docker or Podman (default: detected)', parse: absolutePath },
  '--image <name>': 'default image for containers (default: debian:12)',
  '--allow-local-images': 'let tenants use local images by name',
  '--no-allow-local-images': 'undo --allow-local-images',
  '--allow-registry <host...>': { help: 'let tenants pull from these private registries', parse: addRegistry },
  '--allow-private-registries': 'let tenants pull from any private address',
  '--no-allow-private-registries': 'undo --allow-private-registries',
  '--allow-unfenced': 'run containers even where tenants cannot be isolated',
  '--no-allow-unfenced': 'undo --allow-unfenced',
  '--registry-auth <file>': { help: 'registry logins, as in ~/.docker/config.json', parse: absolutePath },
  '--pull-stall <seconds>': {
    help: 'restart a pull after this long without progress (default: 120)',
    parse: parseWhole(1, MAX_STALL_SECONDS),
  },
  '--weights-gb <gb>': {
    help: 'disk space for the weights of models (default: a fifth of the disk)',
    parse: parseNumber(0, MAX_WEIGHTS_GB),
  },
  '--cluster-address <ip>': {
    help: 'offer it for groups: its address on the network between the machines of its cluster; needs --trusted-lan',
    parse: (text) => parseAddress(text),
  },
  '--trusted-lan': 'only machines and people you trust are on that network: groups send unencrypted packets over it',
  '--no-trusted-lan': 'undo --trusted-lan',
  '--accel <mode>': { help: 'acceleration of virtual machines (default: detected)', choices: ['kvm', 'tcg'] },
}

/** The saved settings, with what is given anew. */
export function runSettingsOf(options: RunSettings, saved: RunSettings | undefined): RunSettings {
  return { ...saved, ...runSettings.parse(options) }
}

function parseAddress(text: string): string {
  if (runSettings.shape.clusterAddress.safeParse(text).success) return text
  throw new InvalidArgumentError('Must be an IPv4 address, such as 192.168.10.7.')
}

function absolutePath(text: string): string {
  return path.resolve(text)
}

/** `none` clears the saved list. */
function addRegistry(text: string, before: unknown): readonly string[] {
  if (text === 'none') return []
  const all = [...((before as string[] | undefined) ?? []), text]
  if (runSettings.shape.allowRegistry.safeParse(all).success) return all
  throw new InvalidArgumentError(
    `Must be a host with or without a port, such as registry.lan:5000; at most ${MAX_ALLOWED_REGISTRIES}.`,
  )
}
