/** Options that the commands for models and deployments share. A server's key is never an argument: others see those. */
import { InvalidArgumentError, Option, type Command } from 'commander'
import { deploymentProtocol, type DeploymentProtocol, type ModelPriceName } from '../contract/model.ts'
import type { NextSteps } from './failure.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'

const priceOptions = {
  inputPrice: 'inputUsdPerMillion',
  cachedPrice: 'cachedUsdPerMillion',
  outputPrice: 'outputUsdPerMillion',
  pixelStepPrice: 'pixelStepUsdPerMillion',
  characterPrice: 'characterUsdPerMillion',
} as const satisfies Readonly<Record<string, ModelPriceName>>

export type PriceOptions = { readonly [option in keyof typeof priceOptions]?: string }

export function addPriceOptions(command: Command): Command {
  return command
    .option('--input-price <usd>', 'USD a million tokens of prompts', parsePrice)
    .option('--cached-price <usd>', 'of those that the engine had cached (as --input-price)', parsePrice)
    .option('--output-price <usd>', 'USD a million tokens of answers', parsePrice)
    .option('--pixel-step-price <usd>', 'USD a megapixel and step of pictures', parsePrice)
    .option('--character-price <usd>', 'USD a million characters of speech', parsePrice)
}

/** By the contract's names. */
export function pricesOf(options: PriceOptions): { [name in ModelPriceName]?: string } {
  const named = Object.entries(priceOptions).flatMap(([option, name]) => {
    const price = options[option as keyof PriceOptions]
    return price === undefined ? [] : [[name, price] as const]
  })
  return Object.fromEntries(named)
}

export interface UpstreamOptions {
  readonly upstream?: string
  readonly protocol?: DeploymentProtocol
  readonly upstreamModel?: string
  readonly apiKeyEnv?: string
  readonly apiKeyStdin?: true
}

export function addUpstreamOptions(command: Command): Command {
  return command
    .option('--upstream <url>', 'the server that runs it, with or without /v1 at the end')
    .addOption(
      new Option('--protocol <protocol>', 'how that server is spoken to (by the kind of the model)').choices(
        deploymentProtocol.options,
      ),
    )
    .option('--upstream-model <name>', 'what the model is called there (the same)')
    .option('--api-key-env <variable>', "the environment variable with that server's key")
    .addOption(new Option('--api-key-stdin', 'read that key from the standard input').conflicts('apiKeyEnv'))
}

/** What a deployment is made of, without its model. */
export function upstreamOf(shell: Shell, options: UpstreamOptions & { readonly upstream: string }) {
  const { upstream: url, protocol, upstreamModel } = options
  const apiKey = apiKeyOf(shell, options)
  return {
    url,
    ...(protocol === undefined ? {} : { protocol }),
    ...(upstreamModel === undefined ? {} : { upstreamModel }),
    ...(apiKey === undefined ? {} : { apiKey }),
  }
}

function apiKeyOf(shell: Shell, { apiKeyEnv, apiKeyStdin }: UpstreamOptions): string | undefined {
  if (apiKeyEnv !== undefined) {
    const key = shell.env[apiKeyEnv]?.trim() ?? ''
    if (key !== '') return key
    throw new CliError(exitCodes.usage, `The environment variable ${apiKeyEnv} is empty or not set.`, [
      `Set it first, such as: export ${apiKeyEnv}=$(cat key.txt)`,
    ])
  }
  if (apiKeyStdin === undefined) return undefined
  const key = shell.readInput()?.trim() ?? ''
  if (key !== '') return key
  throw new CliError(exitCodes.usage, 'The standard input holds no key.', [
    'Send it in, such as: berth deployments add … --api-key-stdin < key.txt',
  ])
}

/** What to do next, by the reason of a refusal. */
export const modelSteps: NextSteps = {
  model_not_found: ['berth models ls lists the models.'],
  deployment_not_found: ['berth deployments ls lists the deployments.'],
  model_exists: [
    'berth deployments add adds a server that runs it; berth models price changes what it costs.',
    'To begin anew: berth models rm, then add it again.',
  ],
}

export function parseModelName(text: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/.test(text)) {
    throw new InvalidArgumentError('A name has letters, digits and . _ : / @ + - only, such as owner/model.')
  }
  return text
}

export function parseTokens(text: string): number {
  const n = /^\d{1,9}$/.test(text) ? Number.parseInt(text, 10) : 0
  if (n < 1) throw new InvalidArgumentError('A number of tokens, such as 4096.')
  return n
}

function parsePrice(text: string): string {
  if (!/^(\d{1,4}(\.\d{1,9})?|10000)$/.test(text)) {
    throw new InvalidArgumentError('A price is from 0 to 10000 USD, such as 0.25.')
  }
  return text
}
