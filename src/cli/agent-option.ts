/** Options of `berth agent`, and what they mean for the terms on which a machine is offered. */
import os from 'node:os'
import path from 'node:path'
import { InvalidArgumentError, Option, type Command } from 'commander'
import { hostName } from '../contract/agent.ts'
import { virtualMachineRegion } from '../contract/region.ts'
import { priceUsdText } from '../contract/shared.ts'
import { parseSimulated, type SimulatedGpus } from '../agent/gpu-source.ts'
import type { AgentTerms } from '../agent/identity.ts'
import { CliError, exitCodes } from './shell.ts'

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
/** For what is only simulated; a real machine's price is its owner's to say. */
const SIMULATED_PRICE_USD = '0.10'

export function addFolderOption(command: Command): Command {
  return command.option('--dir <folder>', `where the agent keeps its key and state (${defaultFolder()})`)
}

export function addTermsOptions(command: Command): Command {
  return addFolderOption(command)
    .option('--server <url>', 'the server to join (--url)', parseServer)
    .option('--name <name>', 'what the machine is called (the server picks one)', parseName)
    .option('--cluster <name>', 'the cluster it is listed in (its host name)')
    .option('--region <name>', `where it stands (${DEFAULT_REGION})`)
    .option('--price <usd>', 'USD a GPU and hour, for the marketplace', parsePrice)
    .addOption(
      new Option('--offer <offering>', 'as what it is sold (marketplace)').choices(['marketplace', 'virtual-machine']),
    )
    .addOption(new Option('--network <type>', 'between machines (ethernet)').choices(['ethernet', 'infiniband']))
    .option('--simulate-gpus <model:n>', 'declare GPUs where there are none: h100:8', parseGpus)
    .option('--nvidia-smi <file>', 'the program that lists GPUs (nvidia-smi)')
}

export function defaultFolder(): string {
  return process.getuid?.() === 0 ? '/var/lib/berth-agent' : path.join(os.homedir(), '.berth-agent')
}

/** What was kept from joining, with what is named anew. */
export function termsOf(options: TermsOptions, kept: AgentTerms | undefined): AgentTerms {
  const offering = options.offer ?? kept?.offering ?? 'marketplace'
  if (kept !== undefined && kept.offering !== offering) {
    throw new CliError(exitCodes.usage, `This machine has joined as ${kept.offering}.`, [
      'To offer it as something else, let it leave first: berth agent leave',
    ])
  }
  if (kept !== undefined && options.name !== undefined && options.name !== kept.name) {
    throw new CliError(exitCodes.usage, `This machine has joined as ${kept.name ?? 'what the server has named it'}.`, [
      'A name is given when a machine joins, and stays.',
    ])
  }
  const simulated = options.simulateGpus ?? kept?.simulated ?? null
  const price = options.price ?? kept?.priceUsdPerGpuHour ?? (simulated === null ? null : SIMULATED_PRICE_USD)
  if (offering === 'marketplace' && price === null) {
    throw new CliError(exitCodes.usage, 'A machine on the marketplace needs a price.', [
      'Say what a GPU costs an hour, such as: --price 1.20',
    ])
  }
  const region = options.region ?? kept?.region ?? DEFAULT_REGION
  if (offering === 'virtual-machine' && !virtualMachineRegion.safeParse(region).success) {
    throw new CliError(exitCodes.usage, `Virtual machines are not ordered in the region ${region}.`, [
      `Give one with --region: ${virtualMachineRegion.options.join(', ')}`,
    ])
  }
  return {
    name: kept?.name ?? options.name ?? null,
    clusterName: options.cluster ?? kept?.clusterName ?? wordOf(os.hostname()),
    region,
    offering,
    networkType: options.network ?? kept?.networkType ?? 'ethernet',
    priceUsdPerGpuHour: offering === 'marketplace' ? price : null,
    simulated,
  }
}

/** A name in the letters that names have. */
function wordOf(text: string): string {
  const word = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 63)
  return word === '' ? 'host' : word
}

function parseServer(text: string): string {
  if (/^https?:\/\/[^/]/.test(text) && URL.canParse(text)) return text.replace(/\/+$/, '')
  throw new InvalidArgumentError('A server is an http or https URL, such as https://berth.example.com.')
}

function parseName(text: string): string {
  if (hostName.safeParse(text).success) return text
  throw new InvalidArgumentError('A name has lower-case letters, digits and hyphens, 63 at most.')
}

function parsePrice(text: string): string {
  if (priceUsdText.safeParse(text).success) return text
  throw new InvalidArgumentError('A price is an amount in USD up to 1000, such as 1.20.')
}

function parseGpus(text: string): SimulatedGpus {
  try {
    return parseSimulated(text)
  } catch (error) {
    throw new InvalidArgumentError(error instanceof Error ? error.message : String(error))
  }
}
