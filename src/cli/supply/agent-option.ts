/** Options of `berth agent`, and the terms a machine is offered on. */
import os from 'node:os'
import path from 'node:path'
import { InvalidArgumentError } from 'commander'
import { hostName } from '../../contract/agent.ts'
import { virtualMachineRegion } from '../../contract/region.ts'
import { priceUsd } from '../../contract/shared.ts'
import { parseSimulated, type SimulatedGpus } from '../../agent/gpu-source.ts'
import type { AgentTerms } from '../../agent/identity.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Options } from '../kit/row-type.ts'

export interface FolderOptions {
  readonly dir?: string
}

export interface TermsOptions extends FolderOptions {
  readonly server?: string
  readonly token?: string
  readonly name?: string
  readonly cluster?: string
  readonly region?: string
  readonly price?: string
  readonly offer?: AgentTerms['offering']
  readonly network?: AgentTerms['networkType']
  readonly simulateGpus?: SimulatedGpus
  readonly nvidiaSmi?: string
}

const DEFAULT_REGION = 'local'
/** Simulated GPUs have this price; the owner of a real machine must set one. */
const SIMULATED_PRICE_USD = '0.10'

export const folderOption: Options = {
  '--dir <folder>': `folder for the agent's key and state (default: ${defaultFolder()})`,
}

export const termsOptions: Options = {
  ...folderOption,
  '--server <url>': { help: 'URL of the server to join; same as --url', parse: parseServer },
  '--name <name>': { help: 'name of the machine (default: chosen by the server)', parse: parseName },
  '--cluster <name>': 'cluster it is listed in (default: its host name)',
  '--region <name>': `region (default: ${DEFAULT_REGION})`,
  '--price <usd>': { help: 'price per GPU-hour on the marketplace', parse: parsePrice },
  '--offer <offering>': {
    help: 'how it is sold (default: marketplace)',
    choices: ['marketplace', 'virtual-machine'],
  },
  '--network <type>': {
    help: 'network between machines (default: ethernet)',
    choices: ['ethernet', 'infiniband'],
  },
  '--simulate-gpus <model:n>': { help: 'simulate GPUs, such as h100:8', parse: parseGpus },
  '--nvidia-smi <file>': 'program that lists GPUs (default: nvidia-smi)',
}

export function defaultFolder(): string {
  return process.getuid?.() === 0 ? '/var/lib/berth-agent' : path.join(os.homedir(), '.berth-agent')
}

/** The terms saved when joining, with what is given anew. */
export function termsOf(options: TermsOptions, saved: AgentTerms | undefined): AgentTerms {
  const offering = options.offer ?? saved?.offering ?? 'marketplace'
  if (saved !== undefined && saved.offering !== offering) {
    throw new CliError(exitCodes.usage, `This machine has joined as ${saved.offering}.`, [
      'To offer it differently, leave first: berth agent leave',
    ])
  }
  if (saved !== undefined && options.name !== undefined && options.name !== saved.name) {
    throw new CliError(exitCodes.usage, `This machine has joined as ${saved.name ?? 'another name'}.`, [
      'The name is set when a machine joins.',
    ])
  }
  const simulated = options.simulateGpus ?? saved?.simulated ?? null
  const price = options.price ?? saved?.priceUsdPerGpuHour ?? (simulated === null ? null : SIMULATED_PRICE_USD)
  if (offering === 'marketplace' && price === null) {
    throw new CliError(exitCodes.usage, 'A machine on the marketplace needs a price.', [
      'Set the price per GPU-hour: --price 1.20',
    ])
  }
  const region = options.region ?? saved?.region ?? DEFAULT_REGION
  if (offering === 'virtual-machine' && !virtualMachineRegion.safeParse(region).success) {
    throw new CliError(exitCodes.usage, `Virtual machines cannot be offered in the region ${region}.`, [
      `Choose one with --region: ${virtualMachineRegion.options.join(', ')}`,
    ])
  }
  return {
    name: saved?.name ?? options.name ?? null,
    clusterName: options.cluster ?? saved?.clusterName ?? slugOf(os.hostname()),
    region,
    offering,
    networkType: options.network ?? saved?.networkType ?? 'ethernet',
    priceUsdPerGpuHour: offering === 'marketplace' ? price : null,
    simulated,
  }
}

/** Keeps only the characters that names may have. */
function slugOf(text: string): string {
  const slug = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 63)
  return slug === '' ? 'host' : slug
}

function parseServer(text: string): string {
  if (/^https?:\/\/[^/]/.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '')
  throw new InvalidArgumentError('Must be an http or https URL, such as https://berth.example.com.')
}

function parseName(text: string): string {
  if (hostName.safeParse(text).success) return text
  throw new InvalidArgumentError('Must be lower-case letters, digits and hyphens, at most 63.')
}

function parsePrice(text: string): string {
  if (priceUsd.safeParse(text).success) return text
  throw new InvalidArgumentError('Must be a price in USD up to 1000, such as 1.20.')
}

function parseGpus(text: string): SimulatedGpus {
  try {
    return parseSimulated(text)
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error))
  }
}
